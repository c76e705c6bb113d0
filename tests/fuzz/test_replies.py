"""Netlink replies: whatever the kernel says, what is raised is an error of the kernel's."""

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import strategies as st

from fakes.link import FakeLink
from fuzz.hostile import mutated
from fuzz.rounds import fuzz
from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.nftables import counters, pins
from kubeproxy.dataplane.nftables.batch import batch_messages, program_messages
from kubeproxy.dataplane.nftables.inspect import look
from kubeproxy.dataplane.nftables.program import NftablesSettings, program
from kubeproxy.dataplane.nftables.state import Programmed, step
from kubeproxy.linux import conntrack, links, nfacct, nfnetlink
from kubeproxy.linux import netlink_socket as netlink
from kubeproxy.linux.ipvs import Ipvs
from kubeproxy.linux.netlink.ipvs import (
    AddReal,
    AddServer,
    RealKey,
    ServerKey,
    VirtualServer,
    command_request,
)
from kubeproxy.linux.netlink.message import NLMSG_DONE, NLMSG_ERROR, Message, encode
from kubeproxy.linux.netlink.route import add_address_request
from kubeproxy.linux.netlink_socket import Link
from kubeproxy.linux.nfnetlink import Nfnetlink
from world import Mode, endpoint_slice, everywhere, node, table_of

NODE = node(Mode.NFTABLES)
PROGRAM = program(NODE, NftablesSettings())
TABLE = table_of(everywhere(), endpoint_slice("L1 R1"))
KEY = ServerKey(Protocol.TCP, "192.0.2.1", 80)

# Requests look like notifications: messages of objects are the same both ways.
SEEDS = [
    *(bytes(each) for each in program_messages(PROGRAM)),
    *(
        bytes(each)
        for each in batch_messages(
            PROGRAM, step(Programmed(PROGRAM, NODE), (), TABLE.entries.values(), NODE).batch
        )
    ),
    encode(add_address_request(1, "192.0.2.1")),
    encode(command_request(30, AddServer(KEY, VirtualServer("rr")))),
    encode(command_request(30, AddReal(KEY, RealKey("192.0.2.2", 80), 1))),
    encode(Message(NLMSG_ERROR, 0x200, 1, b"\xfe\xff\xff\xff" + bytes(16))),
]
ENDS = [encode(Message(NLMSG_DONE, 0, 1, bytes(4))), encode(Message(NLMSG_ERROR, 0, 1, bytes(20)))]


def known_ipvs() -> Ipvs:
    servers = Ipvs()
    servers._link, servers._number = Link(0), 30
    return servers


QUESTIONS: list[Callable[[], object]] = [
    lambda: Nfnetlink().generation(),
    lambda: Nfnetlink().commit([SEEDS[0]]),
    lambda: Nfnetlink().rehearse([SEEDS[0]]),
    lambda: look(Nfnetlink(), PROGRAM, list(TABLE.entries.values()), NODE),
    lambda: counters.read(PROGRAM, [], endpoints=False),
    lambda: pins.read_pins(Nfnetlink(), PROGRAM, "affinity"),
    lambda: pins.delete_pins(Nfnetlink(), PROGRAM, "affinity", [SEEDS[0][:64]]),
    lambda: list(conntrack.udp_flows(Family.IPV4)),
    lambda: nfacct.read_packets(["c"]),
    lambda: nfacct.ensure_counters(["c"]),
    lambda: nfnetlink.read_counters(2, "t", ["c"]),
    lambda: links.interface_addresses(Family.IPV4),
    lambda: links.device_addresses("lo", Family.IPV4),
    lambda: links.change_addresses("lo", ["192.0.2.1"], ["192.0.2.2"]),
    lambda: links.delete_dummy("lo"),
    lambda: Ipvs().servers(Family.IPV4),
    lambda: known_ipvs().servers(Family.IPV4),
    lambda: known_ipvs().find(KEY),
    lambda: known_ipvs().reals(KEY),
    lambda: known_ipvs().connections(),
    lambda: known_ipvs().run([AddServer(KEY, VirtualServer("rr"))]),
]


def test_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    links_: list[FakeLink] = []
    monkeypatch.setattr(netlink, "open_netlink", lambda _: links_[-1])

    def ask(given: tuple[list[bytes], bytes]) -> None:
        answers, end = given
        for question in QUESTIONS:
            links_[:] = [FakeLink(*answers, end)]
            with contextlib.suppress(KernelError):
                question()

    fuzz(st.tuples(st.lists(mutated(SEEDS), max_size=4), mutated(ENDS)), ask)
