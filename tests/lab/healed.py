"""Services that are healed, as documents; and nftables mode with them, without a daemon."""

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

import msgspec

from kubeproxy.base.inet import Family
from kubeproxy.cluster.model.serviceport import BALANCE_ANNOTATION, HEALING_ANNOTATION
from kubeproxy.dataplane.contract import SyncReport
from kubeproxy.dataplane.nftables.program import NftablesSettings
from kubeproxy.table.entries import Entry
from kubeproxy.table.node import NodeView
from lab.attempts import NODE, WAYS, Attempt, Way, attempt
from lab.connection import Connection
from lab.deploy import Port
from lab.dialer import Dialer
from lab.documents import in_family, kestrel, kind_of, service_cidr
from lab.expectation import expectation
from lab.listing import KEYWORD
from lab.network import Network
from lab.plan import HOSTS, cluster_ip, vip
from lab.plane import Plane, plane
from lab.stage import CLUSTER_CIDR_FLAG
from world import NODE_ADDRESSES, Document

KERNEL = "retryRefused,retryUnanswered,resetGone"
"""What the kernel does by itself."""
NUMBER, NODE_PORT = 21, 31080
"""Of the Service that most tests are about."""
PORTS = (Port(node_port=NODE_PORT),)
_FLAGS = ("--proxy-mode=nftables", CLUSTER_CIDR_FLAG)


def talks(connection: Connection) -> bool:
    """Whether the other end answers; if not, it was reset. Anything else is an error."""
    try:
        connection.talk()
    except (ConnectionResetError, BrokenPipeError):
        return False
    return True


Documents = Iterable[Mapping[str, object]]


def annotated(documents: Documents, **annotations: str) -> list[Document]:
    """The documents, the Service among them with annotations of ours: `healing`, `balance`."""
    keys = {"healing": HEALING_ANNOTATION, "balance": BALANCE_ANNOTATION}
    wanted = {keys[name]: value for name, value in annotations.items()}
    return [
        {**each, "metadata": {**_part(each, "metadata"), "annotations": wanted}}
        if kind_of(each) == "Service"
        else {**each}
        for each in documents
    ]


def healed(
    documents: Documents, healing: str = KERNEL, balance: str = "round-robin"
) -> list[Document]:
    """The Service healed; it takes its endpoints in turn, so that outcomes are no matter of luck.

    The turn begins with the first endpoint in the order of addresses.
    """
    return annotated(documents, healing=healing, balance=balance)


def of_pods(documents: Documents, *, selector: bool = True) -> list[Document]:
    """The documents as a controller writes them: endpoints are pods, the Service selects them."""
    found = []
    for each in documents:
        if kind_of(each) != "Service":
            endpoints = cast("list[Document]", each["endpoints"] or [])
            target = {"kind": "Pod", "namespace": "mall", "name": "some"}
            found.append({**each, "endpoints": [{**e, "targetRef": target} for e in endpoints]})
        elif selector:
            found.append({**each, "spec": {**_part(each, "spec"), "selector": {"app": "some"}}})
        else:
            found.append({**each})
    return found


def _part(document: Mapping[str, object], name: str) -> Mapping[str, object]:
    return cast("Mapping[str, object]", document[name])


def meant(documents: Documents, family: Family) -> tuple[NodeView, list[Entry]]:
    """What the documents mean for one family: the node, and the entries."""
    found = expectation([kestrel(), service_cidr(), *documents], _FLAGS, NODE_ADDRESSES)
    return found.nodes[family], list(found.tables[family].entries.values())


class Healer(msgspec.Struct):
    """Nftables mode of one family on the node, without a daemon: the kernel is alone."""

    network: Network
    family: Family
    plane: Plane
    _open: list[Connection] = []

    def put(self, documents: Documents) -> SyncReport:
        """These are all Services and slices from now on."""
        _, entries = meant(documents, self.family)
        return self.plane.put(entries)

    def dial(self, ways: Sequence[Way] = WAYS, times: int = 1, **how: float) -> list[Attempt]:
        """Dial the Service of most tests in each of these ways so often, all at once."""
        probes = [way.probe(NUMBER, self.family, NODE_PORT) for way in ways for _ in range(times)]
        return attempt(self.network, probes, **how)

    def answering(self, *numbers: int) -> None:
        """As if a client of each frontend of these Services, or of that one, were answered.

        It stays so for a minute, so that no outcome depends on when a retry comes: the rule that
        says so for less than a second is taken out.
        """
        family, port = self.family, f"{NODE_PORT} timeout 1m"
        addresses = [
            address(number, family)
            for number in numbers or (NUMBER,)
            for address in (cluster_ip, vip)
        ]
        elements = [f"{address} . 80 timeout 1m" for address in addresses]
        elements.append(f"{in_family(NODE, family)} . {port}")
        chain = f"{KEYWORD[family]} kube-proxy healing"
        rules = self.network.node.run(["nft", "-a", "list", "chain", *chain.split()])
        (handle,) = re.findall(r"update @answering .* # handle (\d+)", rules)
        script = f"""delete rule {chain} handle {handle}
            add element {KEYWORD[family]} kube-proxy answering {{ {", ".join(elements)} }}"""
        self.network.node.run(["nft", "-f", "-"], stdin=script)

    def connect(self, way: Way, number: int = NUMBER) -> Connection:
        """A connection that stays until the test ends."""
        probe = way.probe(number, self.family, NODE_PORT)
        connection = Connection(Dialer(self.network).open(probe))
        self._open.append(connection)
        return connection

    def close(self) -> None:
        """Close what is open, while rules translate: the other ends shall know of it."""
        for each in self._open:
            each.close()
        self.network.forget_connections()

    def turn(self, *, local: bool = False) -> list[str]:
        """The endpoints of the one Service, in the order in which a fresh table chooses them."""
        names = {host.address(self.family): host.name for host in HOSTS.values()}
        entry = self.plane.entry
        return [names[each.address] for each in (entry.local if local else entry.cluster)]

    def expect(self, documents: Documents) -> SyncReport:
        """These are all from now on, as a process finds that starts again: a full sync."""
        _, entries = meant(documents, self.family)
        self.plane.expect(entries)
        return self.plane.restart()


@contextlib.contextmanager
def healer(
    network: Network, family: Family, settings: NftablesSettings | None = None
) -> Iterator[Healer]:
    """It, for as long as the context lasts."""
    node, _ = meant([], family)
    with plane(network.node, node, settings) as opened:
        made = Healer(network, family, opened)
        yield made
        made.close()
