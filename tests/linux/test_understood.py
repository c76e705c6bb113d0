"""Answers of the kernel that make no sense: an error of the kernel's, that says what was asked."""

import socket
from collections.abc import Callable

import pytest

from fakes.link import FakeLink
from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.nftables import counters, pins
from kubeproxy.dataplane.nftables.compare import look
from kubeproxy.dataplane.nftables.program import masquerade_mark, program
from kubeproxy.linux import conntrack, dummy, ipvs, links, nfacct, nfnetlink, nftcounters
from kubeproxy.linux.ipvs import Ipvs
from kubeproxy.linux.netlink.attribute import attribute
from kubeproxy.linux.netlink.ipvs import ServerKey
from kubeproxy.linux.netlink.message import NLMSG_DONE, NLMSG_ERROR, Message, encode
from kubeproxy.linux.netlink.nfnetlink import NFT_MSG_GETSET
from kubeproxy.linux.nfnetlink import Nfnetlink
from kubeproxy.table.node import Mode
from world import node

NODE = node(Mode.NFTABLES)
PROGRAM = program(NODE, masquerade_mark(14))
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
            lambda: nftcounters.read_packets(2, "t", ["c"]),
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
            lambda: dummy.device_addresses("lo", Family.IPV4),
            [encode(Message(20, 0, 1, b"\2")), DONE],
            "cannot read the addresses of lo",
            id="addresses-of-a-device",
        ),
        pytest.param(
            lambda: dummy.change_addresses("lo", ["192.0.2.1"], []),
            [SHORT_ERROR],
            "cannot change the addresses of lo",
            id="change-of-addresses",
        ),
        pytest.param(
            lambda: dummy.change_addresses("lo", ["192.0.2.1"], []),
            [encode(Message(NLMSG_ERROR, 0, 9, b"\xff\xff\xff\xff" + bytes(16)))],
            "cannot change the addresses of lo",
            id="refusal-of-what-nobody-asked",
        ),
        pytest.param(
            lambda: Ipvs().servers(Family.IPV4),
            [encode(Message(16, 0, 1, bytes(4) + attribute(1, b"\xff" * 5))), DONE],
            "cannot ask the kernel for ip_vs",
            id="number-that-is-none",
        ),
        pytest.param(
            lambda: dummy.delete_dummy("lo"), [ACK], "cannot read the device lo", id="device"
        ),
        pytest.param(
            lambda: Ipvs().servers(Family.IPV4),
            [empty(16), DONE],
            "cannot ask the kernel for ip_vs",
            id="number-of-ipvs",
        ),
    ],
)
def test_nonsense_is_an_error_of_the_kernel_that_says_what_was_asked(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[[], object], answers: list[bytes], asked: str
) -> None:
    opened = [FakeLink(*answers)]
    for module in (nfnetlink, ipvs, links, dummy):
        monkeypatch.setattr(module, "open_netlink", lambda _: opened[0])
    with pytest.raises(KernelError, match=f"^{asked}.* makes no sense"):
        ask()


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda servers: servers.servers(Family.IPV4), id="servers"),
        pytest.param(lambda servers: servers.find(KEY), id="server"),
        pytest.param(lambda servers: servers.reals(KEY), id="real-servers"),
        pytest.param(lambda servers: servers.statistics(), id="statistics"),
    ],
)
def test_nonsense_of_ipvs(ask: Callable[[Ipvs], object]) -> None:
    servers = Ipvs()
    servers._link, servers._number = _as_socket(FakeLink(empty(30), DONE)), 30
    with pytest.raises(KernelError, match="makes no sense"):
        ask(servers)


def _as_socket(kernel: FakeLink) -> socket.socket:
    return kernel  # type: ignore[return-value]  # as much of one as is used
