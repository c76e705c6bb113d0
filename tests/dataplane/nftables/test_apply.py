"""Updates into a kernel that keeps state and is changed by others."""

import asyncio
import socket
import threading
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from dataplane.nftables.plane import HERE, Plane, expected_elements, service
from dataplane.nftables.programming import by_chains, filled, table_with, with_node
from fakes.ruleset import KernelTable
from kubeproxy.dataplane.contract import Lost, SyncReport
from kubeproxy.dataplane.nftables import apply as apply_module
from kubeproxy.dataplane.nftables import inspect as inspect_module
from kubeproxy.dataplane.nftables import names
from kubeproxy.dataplane.nftables.apply import write
from kubeproxy.dataplane.nftables.elements import frontend_key, head
from kubeproxy.dataplane.nftables.encode import new_chain, new_rule, new_table
from kubeproxy.dataplane.nftables.inspect import look
from kubeproxy.dataplane.nftables.language import DROP, Chain
from kubeproxy.dataplane.nftables.names import TABLE
from kubeproxy.dataplane.nftables.program import NftablesSettings, program
from kubeproxy.linux.netlink.attribute import u32
from kubeproxy.linux.netlink.nfnetlink import NFPROTO_IPV4
from kubeproxy.table.node import PodInterface
from kubeproxy.table.policy import Policy
from world import prefix

A, B = service("a", 1), service("b", 2)


def in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


# --- one transaction a sync -------------------------------------------------------------------


async def test_the_first_update_makes_and_fills_the_table_in_one_transaction(plane: Plane) -> None:
    report = await plane.sync(A, B, full=True)
    assert report.failed == {}
    assert report.written > 0
    assert plane.commits == 1
    assert expected_elements(A, B) == plane.elements


async def test_a_change_is_one_transaction_and_reads_nothing(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    await plane.sync(A, B, full=True)
    monkeypatch.setattr(plane.kernel, "dump", None)  # a call fails
    more = service("b", 2, 3)
    report = await plane.sync(A, more)
    assert plane.commits == 2
    # A chain and its number, a place, and the number of a frontend that goes and comes.
    assert report.written == 5
    assert expected_elements(A, more) == plane.elements


@pytest.mark.parametrize("many", [0, 1 << 20], ids=["in a thread", "at once"])
async def test_a_change_leads_to_the_same_wherever_it_is_encoded(
    plane: Plane, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply_module, "MANY", many)
    threads: list[bool] = []

    def noted(*arguments: object) -> object:
        threads.append(in_main_thread())
        return write(*arguments)  # type: ignore[arg-type]  # passed through

    monkeypatch.setattr(apply_module, "write", noted)
    await plane.sync(A, service("s", 4, affinity=60), full=True)
    after = service("b", 2, 3), service("s", 4, 3, affinity=60)
    await plane.sync(*after)
    assert [many > 0] == threads
    assert expected_elements(*after) == plane.elements
    assert (await plane.sync(*after, full=True)).written == 0


async def test_a_full_update_reads_the_kernel_in_a_thread(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[bool] = []

    def noted(*arguments: object, replace: bool) -> object:
        threads.append(in_main_thread())
        return look(*arguments, replace=replace)  # type: ignore[arg-type]  # passed

    monkeypatch.setattr(apply_module, "look", noted)
    await plane.sync(A, full=True)
    assert threads == [False]


async def test_an_update_without_changes_writes_nothing(plane: Plane) -> None:
    await plane.sync(A, full=True)
    report = await plane.sync(A)
    assert (report, plane.commits) == (SyncReport(), 1)


async def test_a_full_update_writes_only_the_difference(plane: Plane) -> None:
    await plane.sync(A, B, full=True)
    service_ips = plane.table.sets[names.SERVICE_CHOICES].elements
    key = head(frontend_key(A.frontends[0], A.protocol))
    del service_ips[key]
    report = await plane.sync(A, B, full=True)
    assert (report.written, plane.commits) == (1, 2)
    assert expected_elements(A, B) == plane.elements


async def test_a_restart_writes_nothing(plane: Plane) -> None:
    await plane.sync(A, B, service("s", 4, affinity=60), full=True)
    await plane.sync(A, service("s", 4, 3, affinity=60))
    after = plane.restarted()
    report = await after.sync(A, service("s", 4, 3, affinity=60), full=True)
    assert (report.written, after.commits) == (0, 0)


async def test_unused_chains_stay_at_a_restart_and_go_at_the_next_full_sync(
    plane: Plane,
) -> None:
    await plane.sync(service("a", 1, 3), full=True)
    await plane.sync(service("a", 1, 2))
    after = plane.restarted()
    await after.sync(service("a", 1, 2), full=True)
    assert "pick-3" in after.table.chains
    await after.sync(service("a", 1, 2), full=True)
    assert "pick-3" not in after.table.chains
    await after.sync(service("a", 1, 3))  # it is made again when it is needed
    assert "pick-3" in after.table.chains


async def test_chains_that_the_kernel_still_holds_are_left_for_later(plane: Plane) -> None:
    await plane.sync(service("a", 1, 3), full=True)
    await plane.sync(service("a", 1, 2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KernelTable, "users_of", lambda *_: ["another chain"])
        assert (await plane.sync(service("a", 1, 2), full=True)).failed == {}
    assert "pick-3" in plane.table.chains
    await plane.sync(service("a", 1, 2), full=True)
    assert "pick-3" not in plane.table.chains


# --- tables of others -------------------------------------------------------------------------


async def test_a_table_that_is_not_our_program_is_replaced_in_one_transaction(
    plane: Plane,
) -> None:
    foreign = program(HERE, NftablesSettings(masquerade_bit=15))
    plane.kernel.commit([new_table(foreign), new_chain(foreign, Chain("KUBE", ()))])
    await plane.sync(A, full=True)
    assert plane.commits == 2
    assert "KUBE" not in plane.table.chains
    assert expected_elements(A) == plane.elements


async def test_a_rule_that_another_program_added_costs_the_table(plane: Plane) -> None:
    await plane.sync(A, full=True)
    plane.kernel.commit([new_rule(program(HERE, NftablesSettings()), "frontends", (DROP,))])
    await plane.sync(A, full=True)
    expected = filled(table_with(A), HERE).table
    assert expected.chains["frontends"] == plane.table.chains["frontends"]
    assert by_chains(expected.elements()) == plane.elements


async def test_a_table_that_was_made_dormant_is_made_again(plane: Plane) -> None:
    await plane.sync(A, full=True)
    plane.table.declared += u32(2, 1)
    await plane.sync(A, full=True)
    assert plane.table.declared == filled(table_with(A), HERE).table.declared
    assert expected_elements(A) == plane.elements


async def test_a_set_or_chain_of_another_kind_costs_the_table(plane: Plane) -> None:
    await plane.sync(A, full=True)
    for spoil in (spoil_a_set, spoil_a_chain):
        spoil(plane.table)
        await plane.sync(A, full=True)
        expected = filled(table_with(A), HERE).table
        assert expected.sets == plane.table.sets
        assert expected.chains == plane.table.chains


def spoil_a_set(table: KernelTable) -> None:
    set_ = table.sets[names.CLUSTER_IPS]
    set_.declared = set_.declared.replace(b"cluster IPs in use", b"another set")


def spoil_a_chain(table: KernelTable) -> None:
    del table.chains["filter/forward"]


async def test_a_table_that_is_gone_is_made_again(plane: Plane) -> None:
    await plane.sync(A, full=True)
    del plane.kernel.ruleset.tables[NFPROTO_IPV4, TABLE]
    await plane.sync(A, B)
    assert expected_elements(A, B) == plane.elements


async def test_a_partial_update_that_is_refused_becomes_a_full_one(plane: Plane) -> None:
    await plane.sync(A, B, full=True)
    plane.table.sets[names.SERVICE_CHOICES].elements.clear()
    report = await plane.sync(A, service("b", 2, 1))
    assert report.failed == {}
    assert expected_elements(A, service("b", 2, 1)) == plane.elements


async def test_other_settings_are_another_program(plane: Plane) -> None:
    await plane.sync(A, full=True)
    plane.node = with_node(HERE, masquerade_all=True)
    await plane.sync(A)
    assert filled(table_with(A), plane.node).table.chains == plane.table.chains


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"detector": PodInterface("cni0")}, id="another-detector"),
        pytest.param({"node_port_ranges": ()}, id="other-node-port-addresses"),
        pytest.param({"masquerade_all": False}, id="another-way-to-masquerade"),
        pytest.param({"localhost_gate": False}, id="another-gate"),
    ],
)
async def test_settings_that_change_are_followed_at_once(
    plane: Plane, settings: dict[str, object]
) -> None:
    plane.node = with_node(
        HERE,
        masquerade_all=True,
        localhost_gate=True,
        node_port_ranges=(prefix("198.51.100.10/32"), prefix("127.0.0.0/8")),
    )
    local = replace(service("a", 1, node_port=30001), external=Policy.EXTERNAL_LOCAL)
    await plane.sync(replace(local, cluster=()), full=True)
    await plane.sync(local)
    plane.node = with_node(plane.node, **settings)
    await plane.sync(local)
    expected = filled(table_with(local), plane.node).table
    assert by_chains(expected.elements()) == plane.elements
    assert expected.chains == plane.table.chains


async def test_other_addresses_of_the_node_are_two_elements(plane: Plane) -> None:
    await plane.sync(A, full=True)
    plane.node = with_node(
        HERE, addresses=("198.51.100.10",), node_port_ranges=(prefix("0.0.0.0/0"),)
    )
    await plane.sync(A)
    plane.node = with_node(plane.node, addresses=("198.51.100.11",))
    report = await plane.sync(A)
    assert report.written == 2
    assert expected_elements(A, here=plane.node) == plane.elements


async def test_another_zone_of_the_node_is_no_full_sync(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    await plane.sync(A, full=True)
    monkeypatch.delattr("kubeproxy.dataplane.nftables.apply.Nftables._full")
    plane.node = with_node(plane.node, zone="z-east")
    assert (await plane.sync(A)).written == 0


# --- large fills ------------------------------------------------------------------------------


async def test_a_first_fill_is_cut_into_pieces_that_a_socket_can_take(plane: Plane) -> None:
    plane.kernel.room = 70_000
    entries = [service(f"s{number}", number, 60) for number in range(1, 60)]
    await plane.sync(*entries, full=True)
    assert plane.commits > 2
    assert expected_elements(*entries) == plane.elements


async def test_a_large_transaction_is_carried_out_in_a_thread(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply_module, "_LARGE", 100)
    await plane.sync(A, B, full=True)
    assert expected_elements(A, B) == plane.elements
    moment = await plane.guard.moment(plane.kernel)
    assert moment.own == plane.commits == 1


@pytest.mark.parametrize(
    "counters",
    [
        pytest.param(False, id="plain"),
        pytest.param(True, id="with-counters"),
    ],
)
async def test_lists_that_are_too_large_to_be_dumped_are_asked_for_by_their_keys(
    plane: Plane, monkeypatch: pytest.MonkeyPatch, counters: bool
) -> None:
    monkeypatch.setattr(inspect_module, "LARGE_SET", 1)
    plane.settings(endpoint_counters=counters)
    entries = [
        service("a", 1, 9),
        service("b", 2, 1, node_port=30001),
        service("c", 3, affinity=9),
    ]
    await plane.sync(*entries, full=True)
    assert expected_elements(*entries) == plane.elements
    report = await plane.sync(*entries, full=True)
    assert (report.written, plane.commits) == (0, 1)


async def test_lists_whose_keys_are_not_all_known_are_dumped_however_large(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspect_module, "LARGE_SET", 1)
    await plane.sync(A, B, full=True)
    plane.table.sets[names.SERVICE_ENDPOINTS].elements.popitem()
    await plane.sync(A, B, full=True)
    assert expected_elements(A, B) == plane.elements
    lists = plane.table.sets[names.SERVICE_ENDPOINTS].elements
    key, data = lists.popitem()
    lists[key[:-4] + bytes([9, 0, 0, 0])] = data  # as many as there should be, but not the same
    await plane.sync(A, B, full=True)
    assert expected_elements(A, B) == plane.elements


# --- node ports of the loopback address -------------------------------------------------------


@pytest.fixture
def taken() -> Iterator[int]:
    """A port of 127.0.0.1 that another program listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


async def test_a_node_port_that_cannot_be_listened_on_is_logged(
    plane: Plane, taken: int, capsys: pytest.CaptureFixture[str]
) -> None:
    plane.node = with_node(
        HERE,
        localhost_gate=True,
        node_port_ranges=(prefix("198.51.100.10/32"), prefix("127.0.0.0/8")),
    )
    served = service("n", 6, node_port=taken)
    assert (await plane.sync(served, full=True)).failed == {}
    said = capsys.readouterr().err
    assert "Node port cannot be served on the loopback address" in said
    assert f"127.0.0.1:{taken}" in said
    plane.node = HERE
    await plane.sync(served, full=True)
    assert capsys.readouterr().err == ""


async def test_listeners_come_and_go_with_their_node_ports(plane: Plane) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    plane.node = with_node(HERE, localhost_gate=True, node_port_ranges=(prefix("127.0.0.0/8"),))
    await plane.sync(service("n", 6, node_port=port), full=True)
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        pass
    await plane.sync(service("n", 6))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


async def test_nothing_to_do_is_nothing_written(plane: Plane) -> None:
    first = await plane.sync(full=True)
    assert first.written == 3  # an address of node ports, and the bounds of the service range
    assert await plane.sync(full=True) == SyncReport()


async def test_word_of_changes_by_others_is_passed_on(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed: list[tuple[int, int]] = []

    async def follow(family: int, port: int, lost: Lost) -> None:
        followed.append((family, port))
        lost(None)
        await asyncio.Event().wait()

    monkeypatch.setattr(plane.guard, "follow", follow)
    lost: list[bool] = []
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(plane.nftables.watch(lambda _: lost.append(True)), 0.05)
    assert (followed, lost) == ([(NFPROTO_IPV4, plane.kernel.port_id)], [True])
