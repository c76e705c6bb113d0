from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.nftables.netlinktext import message_lines
from dataplane.nftables.programming import SETTINGS, filled, table_with
from fakes.ruleset import elements_in, parts
from kubeproxy.dataplane.nftables import names
from kubeproxy.dataplane.nftables.batch import (
    FILLING_ORDER,
    Batch,
    batch_messages,
    chain_deletions,
    element_at,
    element_messages,
    encoded,
    pieces,
)
from kubeproxy.dataplane.nftables.elements import head, is_end, number_tail, tail, verdict_tail
from kubeproxy.dataplane.nftables.encode import delete_chain, new_rule, new_set
from kubeproxy.dataplane.nftables.language import DROP, Chain, goto
from kubeproxy.dataplane.nftables.program import program
from kubeproxy.linux.netlink.attribute import u32
from kubeproxy.linux.netlink.message import decode
from world import Mode, endpoint_slice, node, service, table_of

PROGRAM = program(node(Mode.NFTABLES), SETTINGS)
KEY = head(bytes([10, 112, 0, 21, 6, 0, 0, 0, 0, 80, 0, 0]))
OTHER = head(bytes([10, 112, 0, 22, 6, 0, 0, 0, 0, 80, 0, 0]))
IS_END = u32(3, 1)
ONE, TWO = tail(b"1234"), tail(b"4321")


def lines(batch: Batch) -> list[str]:
    return [line for message in batch_messages(PROGRAM, batch) for line in message_lines(message)]


# --- what goes and comes ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "deleted", "added"),
    [
        pytest.param({}, {}, 0, 0, id="nothing"),
        pytest.param({KEY: b""}, {KEY: b""}, 0, 0, id="it-stays"),
        pytest.param({}, {KEY: b""}, 0, 1, id="it-comes"),
        pytest.param({KEY: b""}, {}, 1, 0, id="it-goes"),
        pytest.param({KEY: ONE}, {KEY: TWO}, 1, 1, id="it-goes-and-comes-with-other-data"),
        pytest.param({KEY: ONE}, {KEY: ONE}, 0, 0, id="its-data-is-the-same"),
        pytest.param({KEY: ONE}, {KEY: ONE, OTHER: TWO}, 0, 1, id="another-comes"),
        pytest.param({KEY: ONE, OTHER: TWO}, {OTHER: TWO}, 1, 0, id="one-of-two-goes"),
    ],
)
def test_changes(
    before: dict[bytes, bytes], after: dict[bytes, bytes], deleted: int, added: int
) -> None:
    batch = Batch()
    batch.change("set", before, after)
    assert (deleted, added) == (len(batch.deleted.get("set", [])), len(batch.added.get("set", [])))
    assert deleted + added == batch.count


def test_what_a_batch_writes_is_counted() -> None:
    batch = Batch(chains=[Chain("a", ())])
    batch.change("x", {}, {KEY: b""})
    batch.change("y", {KEY: b""}, {})
    assert batch.count == 3


def test_an_empty_batch_is_no_message() -> None:
    assert batch_messages(PROGRAM, Batch()) == []


def test_the_order_of_messages() -> None:
    """Chains before what leads to them, and deletions before additions."""
    batch = Batch(chains=[Chain("pick-1", ((DROP,),))])
    here, there = number_tail(1), number_tail(2)
    batch.change(names.SERVICE_CHOICES, {KEY: there}, {KEY: here})
    batch.change(names.SERVICE_ENDPOINTS, {}, {KEY[:-4] + bytes(4): b""})
    assert [line for line in lines(batch) if not line.startswith(("[", "element"))] == [
        "add chain ip kube-proxy pick-1",
        "flush chain ip kube-proxy pick-1",
        "add rule ip kube-proxy pick-1",
        "delete elements ip kube-proxy service-choices",
        "add elements ip kube-proxy service-endpoints",
        "add elements ip kube-proxy service-choices",
    ]


def test_chains_are_emptied_before_the_first_is_deleted() -> None:
    messages = chain_deletions(PROGRAM, ["pick-2", "pick-3"], {"pick-2": 7, "pick-4": 8})
    assert [line for message in messages for line in message_lines(message)] == [
        "delete elements ip kube-proxy choice-chains",
        "element 0x00000007",
        "flush chain ip kube-proxy pick-2",
        "flush chain ip kube-proxy pick-3",
        "delete chain ip kube-proxy pick-2",
        "delete chain ip kube-proxy pick-3",
    ]


def test_a_whole_change_as_the_kernel_gets_it() -> None:
    """One endpoint of two leaves: the last one takes its place."""
    two, one = (table_of(service(), endpoint_slice(names_)) for names_ in ("R1 R2", "R2"))
    rig = filled(two, node(Mode.NFTABLES))
    (before,), (after,) = two.entries.values(), one.entries.values()
    assert lines(rig.step([before], [after])) == [
        "add chain ip kube-proxy pick-1",
        "flush chain ip kube-proxy pick-1",
        "add rule ip kube-proxy pick-1",
        "[ numgen reg 1 = random mod 1 offset 1 ]",
        "[ meta set priority with reg 1 ]",
        "[ immediate reg 0 goto -> draw-from-service-endpoints ]",
        "delete elements ip kube-proxy service-choices",
        "element 0x1500700a 0x00000006 0x00005000",
        "delete elements ip kube-proxy service-endpoints",
        "element 0x1500700a 0x00000006 0x00005000 0x00000001",
        "element 0x1500700a 0x00000006 0x00005000 0x00000002",
        "add elements ip kube-proxy service-endpoints",
        "element 0x1500700a 0x00000006 0x00005000 0x00000001 : 0x1f09420a 0x0000901f",
        "add elements ip kube-proxy choice-chains",
        "element 0x00000002 : goto -> pick-1",
        "add elements ip kube-proxy service-choices",
        "element 0x1500700a 0x00000006 0x00005000 : 0x00000002",
    ]


def test_two_entries_share_an_element_until_the_last_lets_go() -> None:
    table = table_of(
        service({"ports": [{"name": "http", "port": 80}, {"name": "https", "port": 443}]}),
        endpoint_slice("L1"),
    )
    first, second = table.entries.values()
    rig = filled(table_with(first, second), node(Mode.NFTABLES))
    assert names.CLUSTER_IPS not in rig.step([first], []).deleted
    assert names.CLUSTER_IPS in rig.step([second], []).deleted


def test_what_guards_a_frontend_is_filled_before_it() -> None:
    frontends = (
        FILLING_ORDER.index(names.NODEPORT_CHOICES),
        FILLING_ORDER.index(names.SERVICE_CHOICES),
    )
    for guard in (names.FIREWALL_SOURCES, names.FIREWALL_IPS, names.CLUSTER_IPS, names.HAIRPINS):
        assert FILLING_ORDER.index(guard) < min(frontends)
    assert FILLING_ORDER.index(names.FIREWALL_SOURCES) < FILLING_ORDER.index(names.FIREWALL_IPS)


# --- messages and pieces ----------------------------------------------------------------------


@pytest.mark.parametrize("delete", [True, False])
@pytest.mark.parametrize("size", [12, 20, 28])
def test_many_elements_go_into_several_messages(size: int, delete: bool) -> None:
    """As few as can be: the length of an attribute has 16 bits."""
    heads = [head(index.to_bytes(size, "big")) for index in range(10_000)]
    messages = element_messages(PROGRAM, "set", map(encoded, heads), delete=delete)
    found = [each for data in messages for _, each, _ in elements_in(*decode(data))]
    assert heads == found
    sizes = [len(part.value) for data in messages for part in parts(data[20:]) if part.kind == 3]
    in_one = (0xFFFF - 4) // (size + 12)
    assert len(sizes) == -(-len(heads) // in_one)


def test_ranges_are_written_again_and_never_cut_in_two_by_the_end_of_a_message() -> None:
    bounds = [head(n.to_bytes(16)) + (IS_END if n % 2 else b"") for n in range(6000)]
    batch = Batch()
    batch.change(names.SERVICE_CIDRS, {bounds[0]: b""}, dict.fromkeys(bounds, b""))
    flush, *adds = batch_messages(PROGRAM, batch)
    assert message_lines(flush) == ["flush set ip kube-proxy service-cidrs"]
    added = [[at for _, at, _ in elements_in(*decode(message))] for message in adds]
    assert [at for each in added for at in each] == bounds
    assert len(added) > 1
    assert not any(is_end(each[0]) for each in added)
    assert batch.count == 1 + 3000


def test_no_elements_are_no_message() -> None:
    assert element_messages(PROGRAM, "set", []) == []


@given(st.lists(st.binary(min_size=1, max_size=30)), st.integers(1, 50))
def test_pieces_are_in_order_and_as_large_as_they_may_be(
    messages: list[bytes], limit: int
) -> None:
    found = pieces(messages, limit)
    assert messages == [message for piece in found for message in piece]
    assert all(found)
    for piece, after in pairwise(found):
        assert len(piece) == 1 or sum(map(len, piece)) <= limit
        assert sum(map(len, piece)) + len(after[0]) > limit


# --- what an error is about -------------------------------------------------------------------


heads = st.lists(st.integers(0, 5).map(lambda n: head(bytes(4 + 4 * n))), min_size=1, max_size=8)
tails = st.sampled_from([b"", tail(bytes(8)), verdict_tail(goto("refuse")), verdict_tail(DROP)])


@given(heads, tails, st.data())
def test_an_offset_leads_to_its_element(
    found: list[bytes], end: bytes, data: st.DataObject
) -> None:
    (message,) = element_messages(PROGRAM, "some-set", (encoded(each + end) for each in found))
    index = data.draw(st.integers(0, len(found) - 1))
    starts = [offset for offset, _, _ in elements_in(*decode(message))]
    assert element_at(message, starts[index]) == ("some-set", found[index] + end)
    inside = starts[index] + len(found[index]) + len(end)
    assert element_at(message, inside) == ("some-set", found[index] + end)


@pytest.mark.parametrize("offset", [0, 20, 10_000])
def test_an_offset_elsewhere_leads_to_nothing(offset: int) -> None:
    (message,) = element_messages(PROGRAM, "some-set", [encoded(KEY)])
    assert element_at(message, offset) is None


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(delete_chain(PROGRAM, "pick-2"), id="a-chain"),
        pytest.param(new_set(PROGRAM, PROGRAM.sets[5], 1), id="a-set"),
        pytest.param(new_rule(PROGRAM, "pick-2", (DROP,)), id="a-rule"),
    ],
)
def test_other_messages_have_no_elements(message: bytes) -> None:
    assert {element_at(message, offset) for offset in range(len(message))} == {None}
