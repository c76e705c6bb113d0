import pytest

from kubeproxy.base.inet import Family, Protocol, pack
from kubeproxy.engine.flows import (
    AT_START,
    MOST_FORMER,
    NONE_DUE,
    FlowCleanup,
    due_after,
    stale,
    udp_entries,
    wants_cleanup,
)
from kubeproxy.linux.netlink.conntrack import Flow
from kubeproxy.table.diff import NO_CHANGES, Changes
from kubeproxy.table.entries import (
    Backend,
    Entry,
    Frontend,
    FrontendKind,
    ServicePortName,
    Table,
)
from world import CLUSTER_IP, EXTERNAL_IP, HOSTS, NODE_PORT, VIP

L1, L2, R1 = (Backend(HOSTS[name], 8053) for name in ("L1", "L2", "R1"))
FRONTENDS = (
    Frontend(FrontendKind.CLUSTER_IP, CLUSTER_IP, 53),
    Frontend(FrontendKind.LOAD_BALANCER, VIP, 53),
    Frontend(FrontendKind.EXTERNAL_IP, EXTERNAL_IP, 53),
    Frontend(FrontendKind.NODE_PORT, "", NODE_PORT),
)
ADDRESSES = FRONTENDS[:3]


def entry(
    *serving: Backend,
    frontends: tuple[Frontend, ...] = FRONTENDS,
    protocol: Protocol = Protocol.UDP,
    service: str = "dns",
) -> Entry:
    return Entry(ServicePortName("ns", service, "dns", protocol), frontends, serving=serving)


def flow(destination: str, port: int, responder: str, responder_port: int) -> Flow:
    return Flow(
        pack(destination) + port.to_bytes(2, "big"),
        pack(responder) + responder_port.to_bytes(2, "big"),
        b"",
    )


@pytest.mark.parametrize("address", [CLUSTER_IP, VIP, EXTERNAL_IP])
@pytest.mark.parametrize(
    ("serving", "responder", "port", "expected"),
    [
        pytest.param((L1, R1), HOSTS["R1"], 8053, False, id="served"),
        pytest.param((L1,), HOSTS["R1"], 8053, True, id="the-endpoint-is-gone"),
        pytest.param((L1,), HOSTS["L1"], 53, True, id="the-endpoint-has-another-port-now"),
        pytest.param((L1,), CLUSTER_IP, 53, True, id="made-while-there-were-no-rules"),
        pytest.param((), HOSTS["R1"], 8053, True, id="no-endpoint-serves"),
    ],
)
def test_flows_to_an_address(
    address: str, serving: tuple[Backend, ...], responder: str, port: int, expected: bool
) -> None:
    tracked = flow(address, 53, responder, port)
    assert ([tracked] if expected else []) == stale([tracked], [entry(*serving)])


@pytest.mark.parametrize("address", [HOSTS["H"], "192.0.2.99"])
@pytest.mark.parametrize(
    ("serving", "responder", "expected"),
    [
        pytest.param((L1, R1), HOSTS["R1"], False, id="served"),
        pytest.param((L1,), HOSTS["R1"], True, id="the-endpoint-is-gone"),
        pytest.param((), HOSTS["R1"], False, id="no-endpoint-serves-so-it-may-be-foreign"),
    ],
)
def test_flows_to_a_node_port_whatever_the_address(
    address: str, serving: tuple[Backend, ...], responder: str, expected: bool
) -> None:
    tracked = flow(address, NODE_PORT, responder, 8053)
    assert ([tracked] if expected else []) == stale([tracked], [entry(*serving)])


@pytest.mark.parametrize(
    "tracked",
    [
        pytest.param(flow(CLUSTER_IP, 54, HOSTS["R1"], 8053), id="another-port"),
        pytest.param(flow(HOSTS["R1"], 8053, HOSTS["R1"], 8053), id="straight-to-a-pod"),
        pytest.param(flow("fd00::1", 53, "fd00::2", 8053), id="another-family"),
    ],
)
def test_flows_of_others_stay(tracked: Flow) -> None:
    assert stale([tracked], [entry(L1)], [entry(R1)]) == []


def test_an_address_decides_before_a_node_port_of_the_same_number() -> None:
    at_address = entry(L1, frontends=(Frontend(FrontendKind.CLUSTER_IP, CLUSTER_IP, NODE_PORT),))
    at_node = entry(L2, frontends=FRONTENDS[3:], service="other")
    kept = flow(CLUSTER_IP, NODE_PORT, L1.address, 8053)
    gone = flow(CLUSTER_IP, NODE_PORT, L2.address, 8053)
    assert [gone] == stale([kept, gone], [at_address, at_node])


@pytest.mark.parametrize(
    ("tracked", "expected"),
    [
        pytest.param(flow(CLUSTER_IP, 53, L1.address, 8053), True, id="to-its-address"),
        pytest.param(flow(HOSTS["H"], NODE_PORT, L1.address, 8053), True, id="to-its-node-port"),
        pytest.param(flow(CLUSTER_IP, 53, R1.address, 8053), False, id="not-made-by-it"),
        pytest.param(flow(HOSTS["H"], NODE_PORT, R1.address, 8053), False, id="foreign"),
    ],
)
def test_flows_of_a_service_that_is_gone(tracked: Flow, expected: bool) -> None:
    former = [entry(L2, service="other"), entry(L1)]
    assert ([tracked] if expected else []) == stale([tracked], [], former)


def test_a_new_owner_of_the_address_decides() -> None:
    kept = flow(CLUSTER_IP, 53, L1.address, 8053)
    assert stale([kept], [entry(L1, service="new")], [entry(L1)]) == []


def test_the_last_endpoint_behind_a_node_port_leaves() -> None:
    left = flow(HOSTS["H"], NODE_PORT, L1.address, 8053)
    foreign = flow("192.0.2.99", NODE_PORT, "192.0.2.99", NODE_PORT)
    assert [left] == stale([left, foreign], [entry()], [entry(L1)])


NEW_ADDRESS = entry(L1, frontends=ADDRESSES)


@pytest.mark.parametrize(
    ("changes", "wanted", "former"),
    [
        pytest.param(NO_CHANGES, False, (), id="nothing"),
        pytest.param(Changes(added=(entry(L1),)), True, (), id="a-service-with-endpoints-came"),
        pytest.param(Changes(added=(entry(),)), False, (), id="a-service-without-endpoints-came"),
        pytest.param(Changes(removed=(entry(L1),)), True, (entry(L1),), id="a-service-went"),
        pytest.param(
            Changes(changed=((entry(L1), entry()),)), True, (entry(L1),), id="the-last-one-left"
        ),
        pytest.param(
            Changes(changed=((entry(), entry(L1)),)), True, (entry(),), id="the-first-one-came"
        ),
        pytest.param(
            Changes(changed=((NEW_ADDRESS, entry(L1)),)),
            True,
            (NEW_ADDRESS,),
            id="an-address-came",
        ),
        pytest.param(
            Changes(changed=((entry(L1), Entry(entry().name, FRONTENDS, (L1,), serving=(L1,))),)),
            False,
            (),
            id="readiness-alone",
        ),
        pytest.param(
            Changes(
                added=(entry(L1, protocol=Protocol.TCP),),
                changed=((entry(protocol=Protocol.TCP), entry(L1, protocol=Protocol.TCP)),),
                removed=(entry(L1, protocol=Protocol.TCP),),
            ),
            False,
            (),
            id="only-tcp",
        ),
    ],
)
def test_what_changes_ask_for(changes: Changes, wanted: bool, former: tuple[Entry, ...]) -> None:
    assert wanted == wants_cleanup(changes)
    assert FlowCleanup(wanted, former) == due_after(NONE_DUE, changes)


def test_a_debt_grows_until_it_is_paid() -> None:
    removed = Changes(removed=(entry(L1),))
    tcp = entry(L2, protocol=Protocol.TCP)
    changed = Changes(changed=((tcp, tcp), (entry(L2), entry(L1))))
    cleanup = due_after(due_after(due_after(AT_START, removed), NO_CHANGES), changed)
    assert FlowCleanup(True, (entry(L1), entry(L2))) == cleanup
    assert cleanup
    assert not NONE_DUE


def test_a_debt_that_is_never_paid_has_a_limit() -> None:
    past, now = entry(L1), entry(L2)
    cleanup = FlowCleanup(True, (past,) * MOST_FORMER)
    for _ in range(3):
        cleanup = due_after(cleanup, Changes(removed=(now, now)))
    assert FlowCleanup(True, (*[past] * (MOST_FORMER - 4), *[now] * 6)) == cleanup


def test_what_one_sync_owes_is_kept_however_much_it_is() -> None:
    removed = (entry(L1),) * (MOST_FORMER + 1)
    assert FlowCleanup(True, removed) == due_after(NONE_DUE, Changes(removed=removed))


def test_only_udp_entries_matter() -> None:
    table = Table(Family.IPV4)
    table.put(entry(L1))
    table.put(entry(protocol=Protocol.TCP))
    assert (entry(L1),) == udp_entries(table)
