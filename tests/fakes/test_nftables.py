"""The fake kernel refuses what the kernel refuses. Each case was tried on Linux 6.18 as well."""

import errno
from itertools import permutations

import pytest

from dataplane.nftables.programming import with_node
from fakes.nftables import FakeNftables
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.nftables import names
from kubeproxy.dataplane.nftables.batch import element_messages, encoded, program_messages
from kubeproxy.dataplane.nftables.elements import (
    head,
    node_elements,
    tail,
    verdict_tail,
)
from kubeproxy.dataplane.nftables.encode import (
    delete_chain,
    delete_table,
    new_chain,
    new_rule,
    new_table,
)
from kubeproxy.dataplane.nftables.language import DROP, HEADERS, Chain, InSet, UseCounter, goto
from kubeproxy.dataplane.nftables.program import NftablesSettings, program
from kubeproxy.linux.netlink.attribute import attribute, nested, text
from kubeproxy.linux.netlink.nfnetlink import NFPROTO_IPV4
from kubeproxy.linux.netlink.nftables import (
    NFT_MSG_GETSETELEM,
    NFT_MSG_GETTABLE,
    NFTA_SET_ELEM_KEY_END,
)
from kubeproxy.linux.netlink_socket import Refused
from kubeproxy.linux.nfnetlink import GenerationChanged, Nfnetlink
from world import Mode, node, prefix

HERE = node(Mode.NFTABLES)
PROGRAM = program(HERE, NftablesSettings())
FRONTEND = bytes([10, 112, 0, 21, 6, 0, 0, 0, 0, 80, 0, 0])
KEY = head(FRONTEND)
PLACE = head(FRONTEND + bytes(4))


def add(name: str, *elements: bytes) -> bytes:
    (message,) = element_messages(PROGRAM, name, map(encoded, elements))
    return message


def delete(name: str, *elements: bytes) -> bytes:
    (message,) = element_messages(PROGRAM, name, map(encoded, elements), delete=True)
    return message


def chain(name: str) -> bytes:
    return new_chain(PROGRAM, Chain(name, ()))


def allow(first: int, last: int) -> bytes:
    """A range of a list of sources."""
    begin, end = (bytes([0, 0, 0, 1, 10, 0, 0, each]) for each in (first, last))
    return head(begin) + nested(NFTA_SET_ELEM_KEY_END, attribute(1, end))


def kernel() -> Nfnetlink:
    """The kernel that the cases are about; in a network namespace it may be the real one."""
    return FakeNftables()


CHAINS, LISTS, ALLOW = names.CHOICE_CHAINS, names.SERVICE_ENDPOINTS, names.FIREWALL_SOURCES
NUMBER = head(bytes([1, 0, 0, 0]))
BACKEND, OTHER = tail(bytes(8)), tail(bytes([1] * 8))
TO_PICK = verdict_tail(goto("pick-1"))
PICKED = [chain("pick-1"), add(CHAINS, NUMBER + TO_PICK)]

REFUSED = [
    pytest.param([add(CHAINS, NUMBER + TO_PICK)], errno.ENOENT, id="a-verdict-to-no-chain"),
    pytest.param(
        [add(CHAINS, NUMBER + verdict_tail(goto("filter/input")))],
        errno.EOPNOTSUPP,
        id="a-verdict-to-a-chain-of-a-hook",
    ),
    pytest.param([new_rule(PROGRAM, "x", (DROP,))], errno.ENOENT, id="a-rule-of-no-chain"),
    pytest.param(
        [new_rule(PROGRAM, "frontends", (goto("x"),))], errno.ENOENT, id="a-rule-to-no-chain"
    ),
    pytest.param(
        [new_rule(PROGRAM, "frontends", (InSet((HEADERS[Family.IPV4].daddr,), "x"),))],
        errno.ENOENT,
        id="a-rule-with-no-set",
    ),
    pytest.param(
        [new_rule(PROGRAM, "frontends", (UseCounter("x"),))],
        errno.ENOENT,
        id="a-rule-with-no-counter",
    ),
    pytest.param([add("x", KEY)], errno.ENOENT, id="an-element-of-no-set"),
    pytest.param([delete(CHAINS, NUMBER)], errno.ENOENT, id="deleting-what-is-not-there"),
    pytest.param([delete_chain(PROGRAM, "x")], errno.ENOENT, id="deleting-no-chain"),
    pytest.param(
        [*PICKED, delete_chain(PROGRAM, "pick-1")], errno.EBUSY, id="a-chain-that-a-map-leads-to"
    ),
    pytest.param(
        [delete_chain(PROGRAM, "check-sources")], errno.EBUSY, id="a-chain-that-a-rule-leads-to"
    ),
    pytest.param(
        [add(LISTS, PLACE + BACKEND), add(LISTS, PLACE + OTHER)],
        errno.EEXIST,
        id="what-exists-with-other-data",
    ),
    pytest.param([add(LISTS, PLACE)], errno.EINVAL, id="an-element-of-a-map-without-data"),
    pytest.param(
        [add(names.CLUSTER_IPS, head(bytes(4)) + BACKEND)], errno.EINVAL, id="data-in-a-set"
    ),
    pytest.param([add(LISTS, KEY + BACKEND)], errno.EINVAL, id="a-key-that-is-too-short"),
    pytest.param([add(LISTS, PLACE + tail(bytes(4)))], errno.EINVAL, id="data-too-short"),
    pytest.param([add(LISTS, PLACE + verdict_tail(DROP))], errno.EINVAL, id="a-verdict-as-data"),
    pytest.param([add(ALLOW, allow(1, 5), allow(5, 9))], errno.EEXIST, id="ranges-that-overlap"),
    pytest.param([chain("x" * 256)], errno.ERANGE, id="a-name-that-is-too-long"),
    pytest.param(
        [delete_table(Family.IPV4, names.TABLE), chain("x")],
        errno.ENOENT,
        id="a-table-that-is-gone",
    ),
]

TAKEN = [
    pytest.param(PICKED, id="a-chain-and-who-leads-to-it"),
    pytest.param(
        [*PICKED, delete(CHAINS, NUMBER), delete_chain(PROGRAM, "pick-1")], id="and-back"
    ),
    pytest.param(
        [add(LISTS, PLACE + BACKEND), delete(LISTS, PLACE), add(LISTS, PLACE + OTHER)],
        id="one-key-goes-and-comes",
    ),
    pytest.param(
        [add(LISTS, PLACE + BACKEND), add(LISTS, PLACE + BACKEND)], id="the-same-once-more"
    ),
    pytest.param([add(ALLOW, allow(1, 4), allow(5, 9))], id="ranges-side-by-side"),
    pytest.param([new_table(PROGRAM), chain("frontends")], id="what-exists"),
    pytest.param([chain("x" * 255)], id="a-long-name"),
    pytest.param(
        [chain("a"), chain("b"), new_rule(PROGRAM, "a", (goto("b"),)), delete_chain(PROGRAM, "a")],
        id="a-chain-that-leads-on",
    ),
]


@pytest.mark.parametrize(("messages", "number"), REFUSED)
def test_refused(messages: list[bytes], number: int) -> None:
    refusing = kernel()
    refusing.commit(program_messages(PROGRAM))
    with pytest.raises(Refused) as refused:
        refusing.commit(messages)
    assert (number, len(messages) - 1) == (refused.value.errno, refused.value.errors[0].index)


@pytest.mark.parametrize("messages", TAKEN)
def test_taken(messages: list[bytes]) -> None:
    taking = kernel()
    taking.commit(program_messages(PROGRAM))
    taking.commit(messages)


TWO_RANGES = with_node(HERE, service_cidrs=(prefix("10.113.0.0/16"), prefix("10.120.0.0/16")))
BOUNDS = list(node_elements(TWO_RANGES)[names.SERVICE_CIDRS])


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_ranges_begin_and_end_in_turn(order: tuple[int, ...]) -> None:
    """An end that comes too early is taken only where no other range ends before or after it."""
    strict = kernel()
    strict.commit(program_messages(PROGRAM))
    message = add(names.SERVICE_CIDRS, *(BOUNDS[index] for index in order))
    if order in SOUND_ORDERS:
        strict.commit([message])
    else:
        with pytest.raises(Refused, match="File exists"):
            strict.commit([message])


# As Linux 6.18 takes them: 0 and 2 begin a range, 1 and 3 end it.
SOUND_ORDERS = {
    *((0, 1, 2, 3), (1, 0, 2, 3), (1, 2, 0, 3), (1, 2, 3, 0), (2, 0, 1, 3), (2, 0, 3, 1)),
    *((2, 1, 0, 3), (2, 1, 3, 0), (2, 3, 0, 1), (2, 3, 1, 0), (3, 2, 0, 1), (3, 2, 1, 0)),
}


def test_a_transaction_is_done_as_a_whole_or_not_at_all() -> None:
    fake = FakeNftables()
    fake.commit(program_messages(PROGRAM))
    before, generation = fake.ruleset.tables, fake.generation()
    with pytest.raises(Refused) as refused:
        fake.commit([chain("a"), delete(CHAINS, NUMBER), chain("b"), delete(CHAINS, NUMBER)])
    assert [error.index for error in refused.value.errors] == [1, 3]
    assert (before, generation) == (fake.ruleset.tables, fake.generation())
    assert len(fake.commits) == 1


def test_a_generation_that_is_past_is_refused() -> None:
    fake = FakeNftables()
    seen = fake.generation()
    fake.commit([new_table(PROGRAM)], seen)
    with pytest.raises(GenerationChanged):
        fake.commit([new_table(PROGRAM)], seen)


def test_a_refusal_says_where() -> None:
    fake = FakeNftables()
    fake.commit(program_messages(PROGRAM))
    message = add(LISTS, PLACE + BACKEND, PLACE + OTHER)
    with pytest.raises(Refused) as refused:
        fake.commit([message])
    offset = refused.value.errors[0].offset
    assert offset is not None
    assert message[offset:] == encoded(PLACE + OTHER)


def test_what_is_too_large_for_the_socket_is_refused() -> None:
    with pytest.raises(Refused, match="Message too long"):
        FakeNftables(room=10).commit([new_table(PROGRAM)])


def test_nothing_is_no_transaction() -> None:
    fake = FakeNftables()
    fake.broken = errno.EPERM
    fake.commit([])
    assert fake.commits == []


def test_objects_are_asked_for_by_name() -> None:
    fake = FakeNftables()
    of_table = text(1, names.TABLE)
    with pytest.raises(Refused, match="No such file"):
        fake.get(NFT_MSG_GETTABLE, NFPROTO_IPV4, of_table)
    fake.commit(program_messages(PROGRAM))
    assert of_table in fake.get(NFT_MSG_GETTABLE, NFPROTO_IPV4, of_table).payload
    with pytest.raises(Refused, match="No such file"):
        fake.dump(NFT_MSG_GETSETELEM, NFPROTO_IPV4, of_table + text(2, "x"))


def test_elements_are_asked_for_one_by_one() -> None:
    fake = FakeNftables()
    fake.commit([*program_messages(PROGRAM), add(LISTS, PLACE + BACKEND)])
    of_set = text(1, names.TABLE) + text(2, LISTS)
    (answer,) = fake.get_each(NFT_MSG_GETSETELEM, NFPROTO_IPV4, of_set + nested(3, encoded(PLACE)))
    assert answer.endswith(PLACE + BACKEND)
    missing = of_set + nested(3, encoded(head(bytes(16))))
    with pytest.raises(Refused, match="No such file"):
        fake.get_each(NFT_MSG_GETSETELEM, NFPROTO_IPV4, missing)
