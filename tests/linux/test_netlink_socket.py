"""Unexpected answers of the kernel: an error that says what could not be done."""

import errno
from collections.abc import Callable
from struct import pack

import pytest

from fakes.link import FakeLink
from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.nftables import counters, pins
from kubeproxy.dataplane.nftables.inspect import look
from kubeproxy.dataplane.nftables.program import NftablesSettings, program
from kubeproxy.linux import conntrack, links, nfacct, nfnetlink
from kubeproxy.linux import netlink_socket as netlink
from kubeproxy.linux.ipvs import Ipvs
from kubeproxy.linux.netlink.attribute import attribute
from kubeproxy.linux.netlink.ipvs import ServerKey
from kubeproxy.linux.netlink.message import (
    NLM_F_DUMP,
    NLM_F_DUMP_INTR,
    NLM_F_REQUEST,
    NLMSG_DONE,
    NLMSG_ERROR,
    WHOLE_BATCH,
    Message,
    MessageError,
    encode,
)
from kubeproxy.linux.netlink.nftables import NFT_MSG_GETSET
from kubeproxy.linux.netlink_socket import Link, Refused
from kubeproxy.linux.nfnetlink import Nfnetlink
from world import Mode, node

NODE = node(Mode.NFTABLES)
PROGRAM = program(NODE, NftablesSettings())
KEY = ServerKey(Protocol.TCP, "192.0.2.1", 80)
NEW_SET, NEW_GENERATION, NEW_COUNTER = 0xA09, 0xA0F, 0x700
DONE = encode(Message(NLMSG_DONE, 0, 1, bytes(4)))
ACK = encode(Message(NLMSG_ERROR, 0, 1, bytes(20)))
SHORT_ERROR = encode(Message(NLMSG_ERROR, 0, 1, b"\1"))
SHORT_DONE = encode(Message(NLMSG_DONE, 0, 1, b"\1"))


def empty(kind: int) -> bytes:
    return encode(Message(kind, 0, 1, bytes(4)))


@pytest.mark.parametrize(
    ("ask", "answers", "asked"),
    [
        pytest.param(
            lambda: Nfnetlink().generation(),
            [empty(NEW_GENERATION)],
            "cannot read the generation of the rules",
            id="generation",
        ),
        pytest.param(
            lambda: Nfnetlink().commit([empty(0)]),
            [SHORT_ERROR],
            "cannot commit 1 nftables messages",
            id="commit",
        ),
        pytest.param(
            lambda: Nfnetlink().rehearse([empty(0)]),
            [SHORT_ERROR],
            "cannot rehearse 1 nftables messages",
            id="rehearsal",
        ),
        pytest.param(
            lambda: Nfnetlink().dump(NFT_MSG_GETSET, 2),
            [SHORT_DONE],
            "cannot dump nfnetlink objects 0xa0a",
            id="end-of-a-dump",
        ),
        pytest.param(
            lambda: Nfnetlink().get(NFT_MSG_GETSET, 2),
            [SHORT_ERROR],
            "cannot read nfnetlink objects 0xa0a",
            id="refusal",
        ),
        pytest.param(
            lambda: look(Nfnetlink(), PROGRAM, [], NODE),
            [empty(NEW_SET), DONE],
            "cannot read the IPv4 table kube-proxy",
            id="table",
        ),
        pytest.param(
            lambda: counters.read(PROGRAM, [], endpoints=False),
            [empty(NEW_SET), DONE],
            "cannot read the counters of kube-proxy",
            id="counters",
        ),
        pytest.param(
            lambda: pins.read_pins(Nfnetlink(), PROGRAM, "affinity"),
            [SHORT_DONE],
            "cannot dump nfnetlink objects",
            id="pins",
        ),
        pytest.param(
            lambda: list(conntrack.udp_flows(Family.IPV4)),
            [encode(Message(0x100, 0, 1, b"\x02\0\0\0")), DONE],
            "cannot list the tracked IPv4 UDP flows",
            id="flows",
        ),
        pytest.param(
            lambda: nfacct.read_packets(["c"]),
            [empty(NEW_COUNTER)],
            "cannot read the counter c",
            id="accounting",
        ),
        pytest.param(
            lambda: nfacct.ensure_counters(["c"]),
            [SHORT_ERROR],
            "cannot make the counter c",
            id="new-accounting",
        ),
        pytest.param(
            lambda: nfnetlink.read_counters(2, "t", ["c"]),
            [empty(0xA12)],
            "cannot read the counter c",
            id="named-counter",
        ),
        pytest.param(
            lambda: links.interface_addresses(Family.IPV4),
            [encode(Message(20, 0, 1, b"\2")), DONE],
            "cannot read the IPv4 addresses",
            id="addresses",
        ),
        pytest.param(
            lambda: links.interface_addresses(Family.IPV4),
            [SHORT_DONE],
            "cannot read the IPv4 addresses",
            id="end-of-addresses",
        ),
        pytest.param(
            lambda: links.device_addresses("lo", Family.IPV4),
            [encode(Message(20, 0, 1, b"\2")), DONE],
            "cannot read the addresses of lo",
            id="addresses-of-a-device",
        ),
        pytest.param(
            lambda: links.change_addresses("lo", ["192.0.2.1"], []),
            [SHORT_ERROR],
            "cannot change the addresses of lo",
            id="change-of-addresses",
        ),
        pytest.param(
            lambda: links.change_addresses("lo", ["192.0.2.1"], []),
            [encode(Message(NLMSG_ERROR, 0, 9, b"\xff\xff\xff\xff" + bytes(16)))],
            "cannot change the addresses of lo",
            id="refusal-of-another-request",
        ),
        pytest.param(
            lambda: Ipvs().servers(Family.IPV4),
            [encode(Message(16, 0, 1, bytes(4) + attribute(1, b"\xff" * 5))), DONE],
            "cannot find ip_vs in the kernel",
            id="number-that-is-none",
        ),
        pytest.param(
            lambda: links.delete_dummy("lo"), [ACK], "cannot read the device lo", id="device"
        ),
        pytest.param(
            lambda: Ipvs().servers(Family.IPV4),
            [empty(16), DONE],
            "cannot find ip_vs in the kernel",
            id="number-of-ipvs",
        ),
    ],
)
def test_an_unexpected_answer_is_an_error_that_says_what_could_not_be_done(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[[], object], answers: list[bytes], asked: str
) -> None:
    opened = [FakeLink(*answers)]
    monkeypatch.setattr(netlink, "open_netlink", lambda _: opened[0])
    with pytest.raises(KernelError, match=f"^{asked}.* unexpected answer"):
        ask()


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda servers: servers.servers(Family.IPV4), id="servers"),
        pytest.param(lambda servers: servers.find(KEY), id="server"),
        pytest.param(lambda servers: servers.reals(KEY), id="real-servers"),
        pytest.param(lambda servers: servers.connections(), id="connections"),
    ],
)
def test_unexpected_answers_of_ipvs(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[[Ipvs], object]
) -> None:
    monkeypatch.setattr(netlink, "open_netlink", lambda _: FakeLink(empty(30), DONE))
    servers = Ipvs()
    servers._link, servers._number = netlink.Link(0), 30
    with pytest.raises(KernelError, match="unexpected answer"):
        ask(servers)


OBJECT = empty(NEW_SET)
OBJECT_OF_CHANGED = encode(Message(NEW_SET, NLM_F_DUMP_INTR, 0, bytes(4)))
DUMP = Message(NFT_MSG_GETSET, NLM_F_REQUEST | NLM_F_DUMP, 0, bytes(4))
GET = Message(NFT_MSG_GETSET, NLM_F_REQUEST, 0, bytes(4))


def ended(kind: int, number: int, sequence: int = 0) -> bytes:
    return encode(Message(kind, 0, sequence, pack("=i", -number) + bytes(16)))


class Answering(FakeLink):
    """A socket that answers each request with the next of several answers."""

    def __init__(self, *answers: list[bytes]) -> None:
        super().__init__()
        self._next = list(answers)

    def send(self, data: bytes) -> int:
        self._answers = tuple(self._next.pop(0))
        return super().send(data)


@pytest.fixture
def link(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Link]:
    def opened(*answers: list[bytes]) -> Link:
        monkeypatch.setattr(netlink, "open_netlink", lambda _: Answering(*answers))
        return Link(0, {errno.ESRCH: "look elsewhere"})

    return opened


@pytest.mark.parametrize(
    ("request_", "answers", "expected"),
    [
        pytest.param(DUMP, [[DONE]], 0, id="nothing-to-list"),
        pytest.param(DUMP, [[OBJECT, OBJECT], [OBJECT]], None, id="no-end"),
        pytest.param(DUMP, [[OBJECT, OBJECT, DONE]], 2, id="a-list"),
        pytest.param(
            DUMP,
            [[OBJECT_OF_CHANGED, DONE], [ended(NLMSG_DONE, errno.EINTR)], [OBJECT, DONE]],
            1,
            id="listed-again-because-it-changed",
        ),
        pytest.param(GET, [[OBJECT]], 1, id="one-object-needs-no-end"),
        pytest.param(GET, [[]], None, id="no-answer"),
    ],
)
def test_answers(
    link: Callable[..., Link], request_: Message, answers: list[list[bytes]], expected: int | None
) -> None:
    opened = link(*answers)
    if expected is not None:
        assert expected == len(opened.request(request_, "cannot read"))
        return
    with pytest.raises(Refused, match=r"^cannot read: .*\(answers were lost\)") as caught:
        opened.request(request_, "cannot read")
    assert caught.value.errno == errno.ENOBUFS


def test_what_always_changes_is_an_error_at_last(link: Callable[..., Link]) -> None:
    opened = link(*[[OBJECT_OF_CHANGED, DONE]] * 5)
    with pytest.raises(Refused, match=r"\(it changes faster than it can be listed\)") as caught:
        opened.request(DUMP, "cannot read")
    assert caught.value.errno == errno.EINTR


def test_a_refusal_has_advice(link: Callable[..., Link]) -> None:
    with pytest.raises(Refused, match=r"^cannot read: No such process: look elsewhere$"):
        link([ended(NLMSG_ERROR, errno.ESRCH)]).request(GET, "cannot read")


def test_refusals_are_by_place(link: Callable[..., Link]) -> None:
    first = [ended(NLMSG_ERROR, errno.EEXIST, 2), ended(NLMSG_ERROR, 0, 256)]
    second = [ended(NLMSG_ERROR, errno.ENOENT, 3)]
    refused = link(first, second).send_all([GET] * 259, "cannot change")
    assert refused == {
        1: MessageError(WHOLE_BATCH, errno.EEXIST),
        258: MessageError(WHOLE_BATCH, errno.ENOENT),
    }


def test_without_an_answer_to_the_last_request_answers_were_lost(
    link: Callable[..., Link],
) -> None:
    with pytest.raises(Refused, match=r"\(answers were lost\)"):
        link([ended(NLMSG_ERROR, errno.EEXIST, 1)]).send_all([GET] * 2, "cannot change")
