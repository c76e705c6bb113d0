"""The inside of the daemon, from the bytes of watches to a dataplane, and no sockets.

There are good services, and beside them hostile objects in another namespace. The good ones are
served by exactly their endpoints, whatever comes: `check` verifies it.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping

from hypothesis import strategies as st

from cluster.apijson import listed
from fuzz.hostile import exchanged, mutated
from kubeproxy.base.inet import Family
from kubeproxy.cluster.client.resources import ENDPOINT_SLICES, SERVICES, Resource
from kubeproxy.cluster.model.cluster import Cluster
from kubeproxy.cluster.objects.decode import UndecodableObject
from kubeproxy.cluster.watch.incidents import Incident, Output
from kubeproxy.cluster.watch.listwatch import INITIAL_EVENTS_END, ListWatch
from kubeproxy.dataplane.contract import Dataplane
from kubeproxy.engine.handler import EventHandler
from kubeproxy.engine.schedule import Outcome, Schedule
from kubeproxy.engine.sync import FamilySync, SyncTarget
from kubeproxy.table.decide import decide
from kubeproxy.table.node import NodeView
from world import (
    NODE_NAME,
    Document,
    Mode,
    endpoint_slice,
    everywhere,
    packet,
    service,
    shorthand,
)

LABEL = "kubernetes.io/service-name"
GOOD = {
    SERVICES.name: [
        service({"clusterIP": "10.112.0.21"}, name="cart"),
        service({"clusterIP": "10.112.0.22", "sessionAffinity": "ClientIP"}, name="till"),
    ],
    ENDPOINT_SLICES.name: [
        endpoint_slice("L1 R1"),
        endpoint_slice("R2", {"metadata": {"name": "till-1", "labels": {LABEL: "till"}}}),
    ],
}
VERDICTS = {"P 10.112.0.21:80": "L1 R1", "P 10.112.0.22:80": "R2"}
CREATED = {"good": "2026-01-01T00:00:00Z", "hostile": "2026-02-01T00:00:00Z"}

Step = tuple[Resource, bytes]


def _event_line(kind: str, document: Mapping[str, object]) -> bytes:
    return json.dumps({"type": kind, "object": document}).encode() + b"\n"


def _in_place(document: Document, namespace: str, created: str) -> Document:
    """The document as an API server has it: a user chooses neither of these."""
    metadata = document.get("metadata")
    kept = metadata if isinstance(metadata, dict) else {}
    placed = {**kept, "namespace": namespace, "creationTimestamp": created}
    return {**document, "metadata": placed}


@st.composite
def _object_lines(draw: st.DrawFn, resource: Resource) -> bytes:
    if resource is SERVICES:
        made_up = draw(exchanged(everywhere()))
    else:
        made_up = draw(exchanged(endpoint_slice("L1 L2 R1")))
    document = made_up if isinstance(made_up, dict) else {}
    kind = draw(st.sampled_from(("ADDED", "MODIFIED", "DELETED")))
    return _event_line(kind, _in_place(document, "hostile", CREATED["hostile"]))


@st.composite
def _byte_lines(draw: st.DrawFn, resource: Resource) -> bytes:
    """A watch that is broken in the middle of a line, of a word, of a character."""
    spec = {"clusterIP": "10.112.0.99", "externalIPs": ["198.18.0.9"]}
    good = service(spec) if resource is SERVICES else endpoint_slice("L3")
    line = _event_line("ADDED", _in_place(good, "hostile", CREATED["hostile"]))
    bookmark = _event_line("BOOKMARK", {"metadata": {"resourceVersion": "7"}})
    return draw(mutated([line, line * 2, bookmark])) + b"\n"


@st.composite
def steps(draw: st.DrawFn) -> Step:
    resource = draw(st.sampled_from((SERVICES, ENDPOINT_SLICES)))
    lines = draw(
        st.one_of(_object_lines(resource), _object_lines(resource), _byte_lines(resource))
    )
    return resource, lines


class Proxy:
    """One family, fed by watches."""

    def __init__(self, dataplane: Dataplane, node: NodeView) -> None:
        self.node = node
        self._dataplane = dataplane
        cluster = Cluster(NODE_NAME)
        self.sync = FamilySync(
            cluster, Family.IPV4, SyncTarget(dataplane), Schedule(0, 30, 3600), lambda: node
        )
        self._handler = EventHandler(cluster, [self.sync], lambda: None)
        self._protocols = {each.name: ListWatch(each) for each in (SERVICES, ENDPOINT_SLICES)}
        self._runner = asyncio.Runner()
        self._handler.ready()
        for name in self._protocols:
            self._settle(name)

    def close(self) -> None:
        self._runner.run(self._dataplane.close())
        self._runner.close()

    def step(self, step: Step) -> None:
        """Take some bytes in, and sync; a watch that broke is opened again."""
        resource, data = step
        self._deliver(self._protocols[resource.name].receive(data))
        self._settle(resource.name)
        self._runner.run(self.sync.sync())
        self.check()

    def check(self) -> None:
        """The good services are as they are meant to be, and the sync did not fail."""
        assert self.sync.failure == ""
        assert self.sync.progress.failures == 0, Outcome.PARTLY
        for question, verdict in VERDICTS.items():
            found = decide(
                packet(question), self.sync.builder.table, self.node, Mode.NFTABLES.quirks
            )
            assert verdict == shorthand(found)

    def _settle(self, name: str) -> None:
        """Answer as an API server does until the watch is open: it has the good objects."""
        protocol = self._protocols[name]
        good = [_in_place(each, "shop", CREATED["good"]) for each in GOOD[name]]
        while not (protocol.synced and protocol.streaming):
            request = protocol.next_request(0.0, 0.5)
            if not request.watch:
                page = {"metadata": {"resourceVersion": "5"}, "items": good}
                self._deliver(listed(protocol, json.dumps(page).encode()))
                continue
            self._deliver(protocol.opened(0.0))
            if not protocol.synced:
                metadata = {"resourceVersion": "5", "annotations": {INITIAL_EVENTS_END: "true"}}
                lines = [_event_line("ADDED", each) for each in good]
                lines.append(_event_line("BOOKMARK", {"metadata": metadata}))
                self._deliver(protocol.receive(b"".join(lines)))

    def _deliver(self, outputs: Iterable[Output]) -> None:
        for output in outputs:
            if not isinstance(output, Incident | UndecodableObject):
                self._handler.deliver(output)
