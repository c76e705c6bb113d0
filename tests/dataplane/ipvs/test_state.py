"""What is wanted, when service ports share it and pass it on."""

import pytest

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.ipvs.names import IpSet
from kubeproxy.dataplane.ipvs.plan import Part, PlanSetup, Server
from kubeproxy.dataplane.ipvs.state import DesiredState, ServerChange, StateChange, update_state
from kubeproxy.linux.netlink.ipvs import RealKey, ServerKey, VirtualServer
from kubeproxy.table.diff import NO_CHANGES, Changes, patch
from kubeproxy.table.entries import HealthCheck, ServiceName, ServicePortName, Table
from world import endpoint_slice, everywhere, table_of

A, B = (ServicePortName("shop", name, "http", Protocol.TCP) for name in "ab")
KEY = ServerKey(Protocol.TCP, "198.51.100.10", 31080)
ONE, TWO = (Server(VirtualServer(), (RealKey(f"10.64.3.1{n}", 8080),)) for n in (1, 2))
ADDRESS = (IpSet.IPVS_IPS, "10.112.0.21")


def served(server: Server) -> Part:
    return Part(servers={KEY: server})


def test_what_two_want_goes_with_the_second() -> None:
    state = DesiredState(PlanSetup())
    part = Part(members=(ADDRESS,), denials=(KEY,))
    assert StateChange(added=(ADDRESS,)) == state.replace({A: part})
    assert StateChange() == state.replace({B: part})
    assert StateChange() == state.replace({A: None})
    assert state.denials() == (KEY,)
    assert state.filled() == {IpSet.IPVS_IPS}
    assert StateChange(removed=(ADDRESS,)) == state.replace({B: None})
    assert state.denials() == ()
    assert state.filled() == frozenset()


@pytest.mark.parametrize("order", [(A, B), (B, A)], ids=["giver-first", "taker-first"])
def test_a_server_that_passes_to_another(order: tuple[ServicePortName, ...]) -> None:
    state = DesiredState(PlanSetup())
    state.replace({A: served(ONE)})
    wanted = {A: None, B: served(TWO)}
    difference = state.replace({name: wanted[name] for name in order})
    assert StateChange((ServerChange(KEY, ONE, TWO),)) == difference
    assert state.server(KEY) == TWO


def test_the_service_that_has_the_address_wins_over_a_node_port() -> None:
    state = DesiredState(PlanSetup())
    state.replace({A: Part(node_ports={KEY: ONE})})
    assert StateChange((ServerChange(KEY, ONE, TWO),)) == state.replace({B: served(TWO)})
    assert StateChange() == state.replace({A: Part(node_ports={KEY: TWO})})
    assert state.servers() == {KEY: TWO}
    assert StateChange() == state.replace({B: None})
    assert StateChange((ServerChange(KEY, TWO, None),)) == state.replace({A: None})


def test_another_setup_concerns_external_addresses_only() -> None:
    table = table_of(everywhere(), endpoint_slice("L1"))
    state = DesiredState(PlanSetup())
    update_state(state, table, Changes(added=tuple(table.entries.values())), PlanSetup())
    own = PlanSetup(node_port_addresses=("198.51.100.10",), own=frozenset({"198.18.0.5"}))
    difference = update_state(state, table, NO_CHANGES, own)
    assert [change.key for change in difference.servers] == [KEY]
    assert difference.removed == ((IpSet.IPVS_IPS, "198.18.0.5"),)
    assert state.setup == own
    assert StateChange() == update_state(state, table, NO_CHANGES, own)


def test_a_health_check_comes_and_goes_by_itself() -> None:
    table = table_of(everywhere(), endpoint_slice("L1"))
    state = DesiredState(PlanSetup())
    setup = PlanSetup(node_port_addresses=("198.51.100.10",))
    update_state(state, table, Changes(added=tuple(table.entries.values())), setup)
    name, member = ServiceName("shop", "cart"), (IpSet.HEALTH_CHECK_NODE_PORT, "32080")
    for check, expected in (
        (HealthCheck(32080, 1), StateChange(added=(member,))),
        (HealthCheck(32080, 2), StateChange()),
        (None, StateChange(removed=(member,))),
    ):
        changes = Changes(health_checks={name: check})
        patch(table, changes)
        assert expected == update_state(state, table, changes, setup)


def test_without_service_ports_nothing_is_wanted() -> None:
    state = DesiredState(PlanSetup())
    assert StateChange() == state.replace({A: None})
    assert StateChange() == update_state(state, Table(Family.IPV4), NO_CHANGES, PlanSetup())
