from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.nftables.programming import SETTINGS, filled
from fakes.nftables import FakeNftables
from kubeproxy.dataplane.nftables import dump
from kubeproxy.dataplane.nftables.batch import program_messages
from kubeproxy.dataplane.nftables.dump import (
    any_counts,
    counts_in,
    is_dormant,
    list_in,
    read_chains,
    read_elements,
    read_rules,
    read_sets,
    table_handle,
    verdict_in,
)
from kubeproxy.dataplane.nftables.elements import head, tail, verdict_tail
from kubeproxy.dataplane.nftables.encode import new_set
from kubeproxy.dataplane.nftables.expressions import encode_rule
from kubeproxy.dataplane.nftables.language import DROP, goto
from kubeproxy.dataplane.nftables.names import TABLE
from kubeproxy.dataplane.nftables.program import program
from kubeproxy.linux.netlink.attribute import attribute, nested, text, u32, u64
from kubeproxy.linux.netlink.message import Message, decode
from kubeproxy.linux.netlink.nfnetlink import NFPROTO_IPV4
from kubeproxy.linux.netlink.nftables import (
    NFT_MSG_GETCHAIN,
    NFT_MSG_GETRULE,
    NFT_MSG_GETSET,
    NFT_MSG_GETSETELEM,
    NFT_MSG_NEWSETELEM,
    NFTA_BYTEORDER_LEN,
    NFTA_BYTEORDER_SIZE,
)
from world import Mode, endpoint_slice, everywhere, node, table_of

HERE = node(Mode.NFTABLES)
PROGRAM = program(HERE, SETTINGS)
NAME = text(1, TABLE)
COUNTER = nested(7, text(1, "counter"), nested(2, u64(1, 60), u64(2, 3)))


def message(payload: bytes) -> Message:
    return Message(NFT_MSG_NEWSETELEM, 0, 1, bytes([2, 0, 0, 0]) + payload)


def listing(elements: Iterable[bytes]) -> Message:
    """Elements, as a kernel lists them."""
    return message(NAME + text(2, "set") + nested(3, *(nested(1, each) for each in elements)))


@pytest.fixture
def kernel() -> FakeNftables:
    empty = FakeNftables()
    empty.commit(program_messages(PROGRAM))
    return empty


def test_sets_are_read_as_they_were_declared(kernel: FakeNftables) -> None:
    found = read_sets(kernel.dump(NFT_MSG_GETSET, NFPROTO_IPV4, NAME))
    sent = [message for set_ in PROGRAM.sets for message in decode(new_set(PROGRAM, set_, 9))]
    expected = {name: set_.declaration for name, set_ in read_sets(sent).items()}
    assert expected == {name: set_.declaration for name, set_ in found.items()}
    assert {set_.count for set_ in found.values()} == {0}


def test_older_kernels_do_not_count_elements() -> None:
    (found,) = read_sets([message(NAME + text(2, "old") + u32(3, 4))]).values()
    assert (found.name, found.count, found.declaration) == ("old", None, {3: bytes([0, 0, 0, 4])})


def test_chains_are_those_of_our_table(kernel: FakeNftables) -> None:
    answers = kernel.dump(NFT_MSG_GETCHAIN, NFPROTO_IPV4)
    foreign = message(text(1, "other") + text(3, "pick-2"))
    found = read_chains([*answers, foreign], TABLE)
    expected = {
        chain.name: {
            4: u32(1, chain.hook.number) + u32(2, chain.hook.priority),
            5: bytes([0, 0, 0, 1]),
            7: chain.hook.type.encode() + b"\0",
        }
        if chain.hook
        else {}
        for chain in PROGRAM.chains
    }
    assert expected == found


def test_a_chain_with_another_policy_differs() -> None:
    drops = message(NAME + text(3, "filter/input") + u32(5, 0))
    assert read_chains([drops], TABLE) == {"filter/input": {5: bytes(4)}}


def test_rules_are_read_as_they_were_written(kernel: FakeNftables) -> None:
    found = read_rules(kernel.dump(NFT_MSG_GETRULE, NFPROTO_IPV4, NAME))
    expected = {c.name: [encode_rule(rule) for rule in c.rules] for c in PROGRAM.chains}
    assert expected == {name: [rule.expressions for rule in found[name]] for name in found}
    handles = [rule.handle for rules in found.values() for rule in rules]
    assert min(handles) > 0


def test_the_order_of_attributes_is_the_kernels_affair(kernel: FakeNftables) -> None:
    """Linux 7.2 lists the size of a byteorder expression (5) before its length (4)."""
    before = u32(NFTA_BYTEORDER_LEN, 4) + u32(NFTA_BYTEORDER_SIZE, 4)
    after = u32(NFTA_BYTEORDER_SIZE, 4) + u32(NFTA_BYTEORDER_LEN, 4)
    dumped = list(kernel.dump(NFT_MSG_GETRULE, NFPROTO_IPV4, NAME))
    newer = [
        Message(each.type, each.flags, each.sequence, each.payload.replace(before, after))
        for each in dumped
    ]
    assert newer != dumped
    assert read_rules(dumped) == read_rules(newer)


@pytest.mark.parametrize(
    ("flags", "expected"), [(b"", False), (u32(2, 0), False), (u32(2, 1), True)]
)
def test_a_table_can_be_asleep(flags: bytes, expected: bool) -> None:
    assert expected is is_dormant(message(NAME + flags))


@pytest.mark.parametrize(
    ("end", "expected"),
    [(verdict_tail(goto("pick-2")), "pick-2"), (verdict_tail(DROP), "")],
)
def test_where_an_element_leads(end: bytes, expected: str) -> None:
    assert expected == verdict_in(end)[1]


# --- elements ---------------------------------------------------------------------------------


def test_what_was_programmed_is_read_back() -> None:
    spec = {"sessionAffinity": "ClientIP", "loadBalancerSourceRanges": ["192.0.2.0/25"]}
    rig = filled(table_of(everywhere(spec), endpoint_slice("L1 L2 R1")), HERE)
    for name, elements in rig.table.elements().items():
        answers = rig.kernel.dump(NFT_MSG_GETSETELEM, NFPROTO_IPV4, NAME + text(2, name))
        assert elements == read_elements(answers), name


sizes = st.sampled_from((1, 2, 4, 8, 12, 16))
extras = st.sampled_from((b"", COUNTER, u64(4, 1000) + u64(5, 900)))


@st.composite
def alike(draw: st.DrawFn) -> list[bytes]:
    """Elements of one set: keys of one size, data of one size, and the same things behind."""
    size, width, extra = draw(sizes), draw(st.sampled_from((0, 4, 8, 20))), draw(extras)
    keys = draw(st.lists(st.binary(min_size=size, max_size=size), max_size=6))
    data = st.binary(min_size=width, max_size=width)
    return [head(key) + (tail(draw(data)) if width else b"") + extra for key in keys]


@st.composite
def mixed(draw: st.DrawFn) -> list[bytes]:
    """Elements of a map of verdicts, or of a set of ranges: of several shapes."""
    keys = st.binary(min_size=4, max_size=4).map(head)
    ends = st.sampled_from((verdict_tail(DROP), verdict_tail(goto("pick-2")), u32(3, 1), b""))
    return [key + end for key, end in draw(st.lists(st.tuples(keys, ends), max_size=6))]


@given(alike() | mixed())
def test_the_fast_path_reads_what_the_plain_one_does(elements: list[bytes]) -> None:
    listed = b"".join(nested(1, each) for each in elements)
    assert dict(dump._any_elements(listed)) == read_elements([listing(elements)])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(
            (head(bytes(4)), tail(bytes(8))), (head(bytes(8)), tail(bytes(4))), id="sizes"
        ),
        pytest.param(
            (head(bytes(4)), tail(bytes(4))),
            (head(b"1234") + nested(10, attribute(1, b"5678")), b""),
            id="kinds",
        ),
    ],
)
def test_elements_of_one_size_may_still_be_of_two_shapes(
    first: tuple[bytes, bytes], second: tuple[bytes, bytes]
) -> None:
    elements = [b"".join(first), b"".join(second)]
    assert len({len(each) for each in elements}) == 1
    assert read_elements([listing(elements)]) == dict([first, second])


def test_the_fast_path_is_taken_for_endpoints_and_pins() -> None:
    key, data = head(bytes(16)), tail(bytes(8))
    assert dump._plain_elements(nested(1, key, data) * 3) is not None
    assert dump._plain_elements(nested(1, key, data, u64(4, 1000)) * 3) is not None
    assert dump._plain_elements(nested(1, key) * 3) is None


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(bytes(8), id="too-short-for-an-element"),
        pytest.param(bytes(16), id="no-length"),
    ],
)
def test_what_is_no_element_is_left_out(data: bytes) -> None:
    assert read_elements([message(attribute(3, data))]) == {}


def test_a_message_without_elements() -> None:
    assert read_elements([message(NAME)]) == {}


def test_ranges_have_both_ends() -> None:
    whole = head(b"aaaa") + nested(10, attribute(1, b"bbbb"))
    end = head(b"cccc") + u32(3, 1)
    assert read_elements([listing([whole, end])]) == {whole: b"", end: b""}


def counted(*values: tuple[bytes, bytes, int]) -> bytes:
    """A list of elements that count: key, data and packets."""
    return b"".join(
        nested(1, head(key) + (tail(data) if data else b"") + counter(packets))
        for key, data, packets in values
    )


def counter(packets: int) -> bytes:
    return nested(7, text(1, "counter"), nested(2, u64(1, 60), u64(2, packets)))


PADDED = nested(7, text(1, "counter"), nested(2, u64(1, 60), attribute(3, b""), u64(2, 3)))
QUOTA = nested(7, text(1, "quotas!"), nested(2, u64(1, 60), u64(2, 3)))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"", {}, id="none"),
        pytest.param(
            counted((b"aaaa", b"", 3), (b"bbbb", b"", 1 << 40)),
            {b"aaaa": 3, b"bbbb": 1 << 40},
            id="of-a-set",
        ),
        pytest.param(
            counted((b"aaaa", b"12345678", 3), (b"bbbb", b"87654321", 0)),
            {b"aaaa12345678": 3, b"bbbb87654321": 0},
            id="of-a-map",
        ),
        pytest.param(
            counted((b"aaaa", b"", 3), (b"bbbbbbbb", b"", 4)),
            {b"aaaa": 3, b"bbbbbbbb": 4},
            id="of-two-lengths",
        ),
        pytest.param(
            counted((b"aaaa", b"12345678", 3), (b"bbbbccccdddd", b"", 4)) * 2,
            {b"aaaa12345678": 3, b"bbbbccccdddd": 4},
            id="of-one-length-and-two-shapes",
        ),
        pytest.param(
            nested(1, head(b"aaaa") + PADDED), {b"aaaa": 3}, id="of-a-machine-that-aligns"
        ),
        pytest.param(
            nested(1, head(b"aaaa") + COUNTER + u32(3, 0)), {b"aaaa": 3}, id="with-more-behind"
        ),
        pytest.param(
            nested(1, head(b"aaaa") + tail(b"1234") + COUNTER + u32(3, 0)),
            {b"aaaa1234": 3},
            id="of-a-map-with-more-behind",
        ),
        pytest.param(nested(1, head(b"aaaa") + QUOTA), {b"aaaa": 3}, id="of-another-name"),
    ],
)
def test_counts(data: bytes, expected: dict[bytes, int]) -> None:
    assert expected == dict(any_counts(data))
    assert expected == counts_in(data)


@given(st.lists(st.tuples(st.binary(min_size=12, max_size=12), st.integers(0, 2**64 - 1))))
def test_counts_are_read_quickly_as_they_are_read_slowly(values: list[tuple[bytes, int]]) -> None:
    data = list_in(listing(head(key) + counter(value) for key, value in values))
    assert dict(values) == dict(any_counts(data)) == counts_in(data)


def test_a_message_without_elements_has_none() -> None:
    assert list_in(message(NAME)) == b""


def test_the_handle_of_a_table() -> None:
    assert table_handle(message(NAME + u64(4, 77))) == 77


def test_names_that_others_chose_may_be_any_bytes() -> None:
    foreign = Message(0, 0, 0, bytes(4) + attribute(1, b"\xff\0") + attribute(3, b"\xfe\0"))
    assert read_chains([foreign], "kube-proxy") == {}
