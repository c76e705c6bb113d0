"""What a fleet of proxies asks of an API server that is quiet, restarts, or has too much to do."""

import random
from collections import Counter
from pathlib import Path

import pytest

from cluster.apijson import BUSY, EXPIRED, bookmark, listed, page
from cluster.following import following, service
from fakes.apiserver import FakeApiServer
from fakes.certs import server_tls
from fakes.http2front import Http2Front
from kubeproxy.cluster.client.access import Access, ClusterEntry
from kubeproxy.cluster.client.contenttypes import DEFAULT
from kubeproxy.cluster.client.http_client import spread
from kubeproxy.cluster.client.resources import (
    ENDPOINT_SLICES,
    SERVICE_CIDRS,
    SERVICES,
    own_node,
)
from kubeproxy.cluster.client.status import Status
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.cluster.watch.listwatch import BOOKMARK_PERIOD, ListWatch

DAY = 86_400.0
NODES = 1_000
RESOURCES = (SERVICES, ENDPOINT_SLICES, SERVICE_CIDRS, own_node("n"))


def watching(chance: float = 0.0) -> ListWatch:
    """A protocol that has listed all objects, and watches."""
    protocol = ListWatch(SERVICES, accepts=DEFAULT)
    protocol.next_request(0.0, chance)
    listed(protocol, page("5"))
    protocol.next_request(0.0, chance)
    protocol.opened(0.0)
    return protocol


def test_a_quiet_day_is_watches_only() -> None:
    """As `rest_client_requests_total` would count them: one list at the start, nothing polled."""
    dice = random.Random(1)
    asked: Counter[str] = Counter()
    for resource in RESOURCES:
        protocol, now, version = ListWatch(resource, accepts=DEFAULT), 0.0, 1
        while now < DAY:
            request = protocol.next_request(now, dice.random())
            query = dict(request.query)
            asked["watch" if request.watch else "list"] += 1
            now += request.delay
            if not request.watch:
                listed(protocol, page(str(version)))
                continue
            assert query["resourceVersion"] == str(version)  # of the last bookmark
            protocol.opened(now)
            ends = now + int(query["timeoutSeconds"])
            while protocol.streaming and now + BOOKMARK_PERIOD < ends:
                now, version = now + BOOKMARK_PERIOD, version + 1
                list(protocol.receive(bookmark(str(version))))
            if protocol.streaming:
                now = ends
                protocol.closed(now)
    assert asked["list"] == len(RESOURCES)
    # Each lives from five to ten minutes.
    assert len(RESOURCES) * DAY / 600 < asked["watch"] < len(RESOURCES) * DAY / 300


def delays(refusal: Status, *, opened: bool) -> list[float]:
    """After how many seconds the nodes of a fleet ask again, when all are refused at once."""
    dice = random.Random(1)
    found = []
    for _ in range(NODES):
        protocol = watching(dice.random())
        if opened:
            protocol.disconnected(1000.0)
            assert protocol.next_request(1000.0, dice.random()).delay == 0.0
        protocol.refused(refusal)
        found.append(protocol.next_request(1000.0, dice.random()).delay)
    return found


@pytest.mark.parametrize(
    "refusal", [pytest.param(EXPIRED, id="relist"), pytest.param(BUSY, id="busy")]
)
def test_a_fleet_that_is_refused_at_once_does_not_ask_again_at_once(refusal: Status) -> None:
    found = delays(refusal, opened=True)
    tenths = Counter(int((delay - 0.8) / 0.08) for delay in found)
    assert set(tenths) == set(range(10))  # from 0.8 to 1.6 s, a tenth of them in each tenth
    assert max(tenths.values()) < NODES / 7


def test_a_fleet_that_is_asked_to_wait_does_not_come_back_at_once() -> None:
    dice = random.Random(1)
    found = [spread(10, dice.random()) for _ in range(NODES)]
    halves = Counter(int((seconds - 10) / 0.5) for seconds in found)
    assert set(halves) == set(range(10))  # from 10 to 15 s, a tenth of them in each half second
    assert max(halves.values()) < NODES / 7


def test_a_fleet_without_a_server_spreads_further_each_time() -> None:
    dice = random.Random(1)
    rounds: list[list[float]] = [[], [], [], []]
    for _ in range(NODES):
        protocol, now = watching(dice.random()), 1000.0
        protocol.disconnected(now)
        protocol.next_request(now, dice.random())
        for found in rounds:
            protocol.disconnected(now)
            found.append(protocol.next_request(now, dice.random()).delay)
            now += found[-1]
    spread = [max(found) - min(found) for found in rounds]
    assert spread == pytest.approx([0.8, 1.6, 3.2, 6.4], rel=0.05)


@pytest.mark.parametrize(
    "starting",
    [
        pytest.param(None, id="ready-at-once"),
        pytest.param(403, id="without-its-roles"),  # kube-apiserver 1.36 after kill -9
        pytest.param(429, id="without-its-caches"),
    ],
)
async def test_a_fleet_survives_a_restart_of_its_server_without_a_list(
    server: FakeApiServer, tmp_path: Path, short_waits: None, starting: int | None
) -> None:
    assert short_waits is None
    tls, authority = server_tls(tmp_path)
    cluster = ClusterEntry(certificate_authority=str(authority.cert))
    async with Http2Front(server, tls) as front:
        access = Access(server=front.url, cluster=cluster)
        async with (
            following(access, *Kind, accepts=DEFAULT) as one,
            following(access, *Kind, accepts=DEFAULT) as two,
        ):
            for consumer in (one, two):
                for kind in Kind:
                    await consumer.wait_synced(kind)
            await server.wait_watchers(8)
            await front.pause()
            server.put(service("a"))
            if starting is not None:
                server.faults.status("watch=true", starting, times=16)
            await front.resume()
            for consumer in (one, two):
                await consumer.wait_names("a")
                assert [1] * len(Kind) == [consumer.lists(kind) for kind in Kind]
            await server.wait_watchers(8)
            assert len(front.connections) == 2
