"""The netfilter socket against a real kernel. Run in a network namespace of its own."""

import asyncio
import errno
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kubeproxy.linux.netlink.message import (
    NLM_F_CREATE,
    NLM_F_EXCL,
    WHOLE_BATCH,
    Message,
    MessageError,
    attributes,
)
from kubeproxy.linux.netlink.nfnetlink import NFGENMSG, NFPROTO_IPV4, NFPROTO_UNSPEC, request
from kubeproxy.linux.netlink.nftables import (
    NFT_MSG_DELTABLE,
    NFT_MSG_GETSETELEM,
    NFT_MSG_GETTABLE,
    NFT_MSG_NEWCHAIN,
    NFT_MSG_NEWGEN,
    NFT_MSG_NEWSETELEM,
    NFT_MSG_NEWTABLE,
)
from kubeproxy.linux.netlink_socket import Refused
from kubeproxy.linux.nfnetlink import GenerationChanged, Nfnetlink, NftablesChanges
from waiting import until

TABLE = "nfnetlink-test"
_NESTED = 0x8000


def attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def name(kind: int, text: str) -> bytes:
    return attribute(kind, text.encode() + b"\0")


def new_table(table: str = TABLE, flags: int = NLM_F_CREATE) -> bytes:
    return request(NFT_MSG_NEWTABLE, NFPROTO_IPV4, name(1, table), flags)


def new_chain(chain: str, table: str = TABLE) -> bytes:
    return request(NFT_MSG_NEWCHAIN, NFPROTO_IPV4, name(1, table) + name(3, chain), NLM_F_CREATE)


def element(address: int) -> bytes:
    key = attribute(1, address.to_bytes(4, "big"))
    return attribute(1 | _NESTED, attribute(1 | _NESTED, key))


def new_elements(addresses: range, flags: int = NLM_F_CREATE) -> bytes:
    elements = attribute(3 | _NESTED, b"".join(map(element, addresses)))
    payload = name(1, TABLE) + name(2, "many") + elements
    return request(NFT_MSG_NEWSETELEM, NFPROTO_IPV4, payload, flags)


def tables(link: Nfnetlink) -> list[str]:
    return [
        attributes(message.payload[NFGENMSG.size :])[1].rstrip(b"\0").decode()
        for message in link.dump(NFT_MSG_GETTABLE, NFPROTO_UNSPEC)
    ]


def nft(script: str) -> None:
    subprocess.run(["nft", script], check=True)


@pytest.fixture
def link() -> Iterator[Nfnetlink]:
    with Nfnetlink() as link:
        yield link
        if TABLE in tables(link):
            link.commit([request(NFT_MSG_DELTABLE, NFPROTO_IPV4, name(1, TABLE))])


def test_a_commit_is_there_afterwards_and_counts_as_one_generation(link: Nfnetlink) -> None:
    before = link.generation()
    link.commit([new_table(), new_chain("a"), new_chain("b")])
    assert TABLE in tables(link)
    assert link.generation() == before + 1


def test_nothing_to_commit_is_no_transaction(link: Nfnetlink) -> None:
    before = link.generation()
    link.commit([])
    assert link.generation() == before


def test_a_refusal_names_every_message_and_leaves_nothing_behind(link: Nfnetlink) -> None:
    with pytest.raises(Refused) as caught:
        link.commit(
            [
                new_table(),
                new_table(flags=NLM_F_CREATE | NLM_F_EXCL),
                new_chain("a"),
                new_chain("a", table="missing"),
            ]
        )
    # The name, which the kernel does not like, follows the two headers.
    assert caught.value.errors == (
        MessageError(1, errno.EEXIST, offset=20),
        MessageError(3, errno.ENOENT, offset=20),
    )
    assert caught.value.errno == errno.EEXIST
    assert "message 1: File exists; message 3: No such file" in str(caught.value)
    assert TABLE not in tables(link)


def test_the_kernels_explanation_is_passed_on(link: Nfnetlink) -> None:
    with pytest.raises(Refused) as caught:
        link.commit([new_table("n" * 300)])
    (error,) = caught.value.errors
    assert (error.index, error.text, error.offset) == (0, "Attribute failed policy validation", 20)


def test_a_refused_element_is_named_by_its_offset(link: Nfnetlink) -> None:
    link.commit([new_table()])
    nft(f"add set ip {TABLE} many {{ type ipv4_addr; elements = {{ 0.0.0.7 }}; }}")
    with pytest.raises(Refused) as caught:
        link.commit([new_elements(range(20), NLM_F_CREATE | NLM_F_EXCL)])
    (error,) = caught.value.errors
    first = 16 + NFGENMSG.size + len(name(1, TABLE)) + len(name(2, "many")) + 4
    assert error == MessageError(0, errno.EEXIST, offset=first + 7 * len(element(7)))


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param([bytes(16)], id="alone"),
        pytest.param([new_table(), bytes(24)], id="at-the-end"),
        pytest.param([new_table(), bytes(24), new_table()], id="in-the-middle"),
    ],
)
def test_what_the_kernel_drops_silently_is_noticed(link: Nfnetlink, broken: list[bytes]) -> None:
    with pytest.raises(Refused) as caught:
        link.commit(broken)
    assert (caught.value.errors[0].index, caught.value.errno) == (WHOLE_BATCH, errno.EBADMSG)
    assert TABLE not in tables(link)


def test_a_batch_made_for_an_older_generation_is_not_carried_out(link: Nfnetlink) -> None:
    generation = link.generation()
    link.commit([new_table()], generation)
    with pytest.raises(GenerationChanged):
        link.commit([new_chain("a")], generation)
    link.commit([new_chain("a")], generation + 1)


def test_more_errors_than_fit_are_still_an_error(link: Nfnetlink) -> None:
    with pytest.raises(Refused) as caught:
        link.commit([new_chain("a", table="missing")] * 100_000)
    *known, last = caught.value.errors
    assert last == MessageError(WHOLE_BATCH, errno.ENOBUFS, "further errors were lost")
    assert {errno.ENOENT} == {error.errno for error in known}
    link.commit([new_table()])  # the socket works as before


def test_the_largest_batch_is_taken_and_a_larger_one_refused(link: Nfnetlink) -> None:
    link._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 100_000)
    filler = new_table()
    fits = [filler] * (link.max_batch // len(filler))
    link.commit(fits, link.generation())
    with pytest.raises(Refused, match=r"raise net.core.wmem_max") as caught:
        link.commit([*fits, filler], link.generation())
    assert caught.value.errno == errno.EMSGSIZE


def test_one_object_can_be_asked_for(link: Nfnetlink) -> None:
    link.commit([new_table()])
    found = link.get(NFT_MSG_GETTABLE, NFPROTO_IPV4, name(1, TABLE))
    assert attributes(found.payload[NFGENMSG.size :])[1] == TABLE.encode() + b"\0"
    with pytest.raises(Refused) as caught:
        link.get(NFT_MSG_GETTABLE, NFPROTO_IPV4, name(1, "missing"))
    assert caught.value.errno == errno.ENOENT


def test_a_dump_holds_every_element(link: Nfnetlink) -> None:
    link.commit([new_table()])
    nft(f"add set ip {TABLE} many {{ type ipv4_addr; }}")
    link.commit([new_elements(range(start, start + 2500)) for start in range(0, 50_000, 2500)])
    expected = {number.to_bytes(4, "big") for number in range(50_000)}
    # The kernel enlarges the set in the background, and a dump can miss some meanwhile.
    for _ in range(20):
        dumped = link.dump(NFT_MSG_GETSETELEM, NFPROTO_IPV4, name(1, TABLE) + name(2, "many"))
        addresses = {
            message.payload[at : at + 4] for message in dumped for at in _key_offsets(message)
        }
        if addresses == expected:
            return
    assert expected == addresses


def _key_offsets(message: Message) -> Iterator[int]:
    start = NFGENMSG.size + len(name(1, TABLE)) + len(name(2, "many")) + 4
    return iter(range(start + 12, len(message.payload), 16))


def test_a_dump_of_what_is_not_there_is_refused(link: Nfnetlink) -> None:
    with pytest.raises(Refused) as caught:
        link.dump(NFT_MSG_GETSETELEM, NFPROTO_IPV4, name(1, TABLE) + name(2, "many"))
    assert caught.value.errno == errno.ENOENT


def test_without_the_capability_the_error_says_what_is_missing() -> None:
    # In a user namespace below, a process has no power over this network namespace.
    script = "from kubeproxy.linux.nfnetlink import Nfnetlink; Nfnetlink().generation()"
    ran = subprocess.run(
        ["unshare", "-U", sys.executable, "-c", script], stderr=subprocess.PIPE, check=False
    )
    assert b"Refused" in ran.stderr
    assert b"the process needs CAP_NET_ADMIN" in ran.stderr


async def test_a_change_has_the_port_of_the_socket_that_made_it(
    link: Nfnetlink,
) -> None:
    received: list[Message | None] = []
    with NftablesChanges() as watch:
        task = asyncio.create_task(watch.follow(received.append))
        link.commit([new_table()])
        await until(lambda: len(received) >= 2)
        assert [(NFT_MSG_NEWTABLE, link.port_id), (NFT_MSG_NEWGEN, link.port_id)] == [
            (message.type, message.port) for message in received if message
        ]
        received.clear()
        with Nfnetlink() as other:
            other.commit([new_chain("theirs")])
            await until(lambda: len(received) >= 2)
            assert [(NFT_MSG_NEWCHAIN, other.port_id), (NFT_MSG_NEWGEN, other.port_id)] == [
                (message.type, message.port) for message in received if message
            ]
            with watch.paused():
                other.commit([new_chain("missed")])
            other.commit([new_chain("after")])
            await until(lambda: len(received) >= 4)
        task.cancel()
    assert [message.type for message in received if message] == [
        NFT_MSG_NEWCHAIN,
        NFT_MSG_NEWGEN,
    ] * 2
    assert [b"\0after\0" in message.payload for message in received[::2] if message] == [
        False,
        True,
    ]


async def test_lost_notifications_are_reported(link: Nfnetlink) -> None:
    link.commit([new_table()])
    nft(f"add set ip {TABLE} many {{ type ipv4_addr; }}")
    received: list[Message | None] = []
    with NftablesChanges() as watch:
        watch._socket.setsockopt(1, 8, 4096)  # SO_RCVBUF
        link.commit([new_elements(range(3000))])
        task = asyncio.create_task(watch.follow(received.append))
        await until(lambda: None in received)
        task.cancel()
