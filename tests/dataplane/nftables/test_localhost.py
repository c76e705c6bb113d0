from itertools import chain

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.nftables.localhost import (
    Address,
    Listener,
    Pin,
    choose,
    listeners,
)
from kubeproxy.table.decide import Action, Packet, decide
from kubeproxy.table.diff import diff
from kubeproxy.table.entries import (
    Backend,
    Entry,
    Frontend,
    FrontendKind,
    ServicePortName,
    Table,
)
from kubeproxy.table.node import LOOPBACK, NodeView
from kubeproxy.table.policy import Policy
from world import CLUSTER_IP, NODE_PORT, Mode, endpoint_slice, everywhere, node, prefix, table_of

L1 = Backend("10.64.3.11", 8080, local=True)
R1 = Backend("10.65.7.21", 8080)
R2 = Backend("10.66.9.31", 8080)
V4 = ("127.0.0.1", NODE_PORT)


def asked(*ranges: str, gate: bool = True, family: Family = Family.IPV4) -> NodeView:
    """Our node, whose operator lists these ranges; the loopback's when none are given."""
    listed = tuple(map(prefix, ranges)) or (LOOPBACK[family],)
    setting = node(Mode.NFTABLES, family)
    return msgspec.structs.replace(setting, node_port_ranges=listed, localhost_gate=gate)


def entry(
    name: str = "cart",
    port: int = NODE_PORT,
    protocol: Protocol = Protocol.TCP,
    cluster: tuple[Backend, ...] = (L1, R1),
) -> Entry:
    return Entry(
        ServicePortName("shop", name, "http", protocol),
        (
            Frontend(FrontendKind.CLUSTER_IP, CLUSTER_IP, 80),
            Frontend(FrontendKind.NODE_PORT, "", port),
        ),
        cluster=cluster,
    )


def table_with(*entries: Entry, family: Family = Family.IPV4) -> Table:
    table = Table(family)
    for each in entries:
        table.put(each)
    return table


def all_listeners(table: Table, setting: NodeView) -> dict[Address, Listener]:
    return listeners({}, table.entries.values(), table, setting)


@pytest.mark.parametrize(
    ("spec", "endpoints", "expected"),
    [
        pytest.param({}, "L1 R1", {V4: Listener((L1, R1))}, id="policy-cluster-gets-everybody"),
        pytest.param(
            {"externalTrafficPolicy": "Local"},
            "L1 R1",
            {V4: Listener((L1,))},
            id="policy-local-counts-for-the-host-too",
        ),
        pytest.param(
            {"externalTrafficPolicy": "Local"}, "R1", {}, id="no-local-endpoint-under-policy-local"
        ),
        pytest.param({}, "", {}, id="no-endpoint"),
        pytest.param(
            {"sessionAffinity": "ClientIP"},
            "L1",
            {V4: Listener((L1,), affinity_seconds=10800)},
            id="session-affinity-with-its-default-timeout",
        ),
        pytest.param(
            {"ports": [{"name": "http", "port": 80}]}, "L1", {}, id="a-service-without-node-port"
        ),
    ],
)
def test_a_service_has_a_listener_while_it_has_endpoints(
    spec: dict[str, object], endpoints: str, expected: dict[Address, Listener]
) -> None:
    table = table_of(everywhere(spec), endpoint_slice(endpoints))
    assert expected == all_listeners(table, asked())


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        pytest.param(asked(), {V4}, id="the-loopback-network"),
        pytest.param(asked("127.0.0.5/32"), {V4}, id="any-range-inside-it"),
        pytest.param(asked("198.51.100.10/32", "127.0.0.0/8"), {V4}, id="among-others"),
        pytest.param(asked("0.0.0.0/0"), set(), id="everything-does-not-name-the-loopback"),
        pytest.param(asked("198.51.100.10/32"), set(), id="another-range"),
        pytest.param(asked(gate=False), set(), id="the-gate-is-closed"),
        pytest.param(asked(family=Family.IPV6), {("::1", NODE_PORT)}, id="ipv6"),
    ],
)
def test_the_operator_asks_for_listeners(setting: NodeView, expected: set[Address]) -> None:
    table = table_with(entry(), family=setting.family)
    assert expected == all_listeners(table, setting).keys()


def test_only_tcp_is_proxied() -> None:
    udp = entry("dns", protocol=Protocol.UDP)
    sctp = entry("calls", port=31081, protocol=Protocol.SCTP)
    tcp = entry("web", port=31082)
    actual = all_listeners(table_with(udp, sctp, tcp), asked())
    assert actual.keys() == {("127.0.0.1", 31082)}


PINNED = Listener((L1, R1, R2), affinity_seconds=60)


@pytest.mark.parametrize(
    ("chance", "expected"),
    [
        pytest.param(0.0, L1, id="least"),
        pytest.param(0.333, L1, id="end-of-the-first-third"),
        pytest.param(0.334, R1, id="start-of-the-second"),
        pytest.param(0.999999, R2, id="most"),
    ],
)
def test_without_affinity_chance_decides(chance: float, expected: Backend) -> None:
    pin = Pin(L1, 60, until=1e9)
    actual = choose(Listener((L1, R1, R2)), pin, 100.0, chance)
    assert ((expected.address, expected.port), None) == actual


@pytest.mark.parametrize(
    ("pin", "expected"),
    [
        pytest.param(None, R2, id="no-pin-yet"),
        pytest.param(Pin(R1, 60, until=100.5), R1, id="pinned"),
        pytest.param(Pin(R1, 60, until=100.0), R2, id="the-time-is-up"),
        pytest.param(Pin(R1, 30, until=110.0), R2, id="the-timeout-changed"),
        pytest.param(Pin(Backend("10.64.3.12", 8080), 60, until=110.0), R2, id="backend-is-gone"),
    ],
)
def test_with_affinity_the_pin_decides_while_it_holds(pin: Pin | None, expected: Backend) -> None:
    target, left = choose(PINNED, pin, 100.0, 0.99)
    assert (expected.address, expected.port) == target
    assert Pin(expected, 60, until=160.0) == left


def test_every_connection_restarts_the_timeout() -> None:
    pin: Pin | None = None
    targets = set()
    for turn in range(10):
        target, pin = choose(PINNED, pin, 59.0 * turn, turn / 10)
        targets.add(target)
    assert {(L1.address, L1.port)} == targets


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Few services and ports, so that ports move between services; no port is shared."""
    table = Table(Family.IPV4)
    ports = draw(st.permutations((31080, 31081, 31082)))
    for name, port in zip("abc", ports, strict=True):
        if draw(st.booleans()):
            node_port = Frontend(FrontendKind.NODE_PORT, "", port)
            cluster_ip = Frontend(FrontendKind.CLUSTER_IP, CLUSTER_IP, port)
            backends = st.sampled_from(((), (L1,), (L1, R1)))
            table.put(
                Entry(
                    ServicePortName("shop", name, "", draw(st.sampled_from(Protocol))),
                    (draw(st.sampled_from((node_port, cluster_ip))),),
                    cluster=draw(backends),
                    local=draw(backends),
                    external=draw(
                        st.sampled_from((Policy.EXTERNAL_CLUSTER, Policy.EXTERNAL_LOCAL))
                    ),
                    affinity_seconds=draw(st.sampled_from((0, 60))),
                )
            )
    return table


nodes = st.sampled_from((asked(), asked("0.0.0.0/0")))


@given(tables(), tables(), nodes)
def test_following_the_changes_equals_starting_from_scratch(
    before: Table, after: Table, setting: NodeView
) -> None:
    known = all_listeners(before, setting)
    kept = dict(known)
    changes = diff(before, after)
    touched = chain(changes.removed, changes.added, *changes.changed)
    assert all_listeners(after, setting) == listeners(known, touched, after, setting)
    assert kept == known, "what was known is not written to"


@given(tables(), nodes)
def test_without_changes_nothing_changes(table: Table, setting: NodeView) -> None:
    known = all_listeners(table, setting)
    assert known == listeners(known, (), table, setting)


@given(tables(), nodes)
def test_a_packet_is_decided_to_go_through_the_proxy_exactly_where_one_listens(
    table: Table, setting: NodeView
) -> None:
    wanted = all_listeners(table, setting)
    for port in (31080, 31081, 31082):
        packet = Packet("127.0.0.1", "127.0.0.1", Protocol.TCP, port)
        verdict = decide(packet, table, setting, Mode.NFTABLES.quirks)
        listener = wanted.get(("127.0.0.1", port))
        assert (verdict.action is Action.LOCAL_PROXY) == (listener is not None)
        if listener is not None:
            assert tuple(choice.backend for choice in verdict.choices) == listener.backends
            assert verdict.affinity_seconds == listener.affinity_seconds


def test_a_node_of_the_other_family_gets_its_own_address() -> None:
    setting = asked(family=Family.IPV6)
    table = table_with(entry(), family=Family.IPV6)
    expected = {("::1", NODE_PORT): Listener((L1, R1))}
    assert expected == all_listeners(table, setting)
