"""Sends packets through a fast path in network namespaces of its own, to see whether it works.

A client, a router and a server: what the router has is the daemon's own table, and a rule that
translates. Some kernels have flowtables that lose packets, or that take none. Nothing of it stays.
"""

import contextlib
import socket
from collections.abc import Callable, Iterator, Sequence

import msgspec

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family, Protocol, pack
from kubeproxy.dataplane.nftables import language as lang
from kubeproxy.dataplane.nftables.batch import program_messages
from kubeproxy.dataplane.nftables.expressions import NFPROTO
from kubeproxy.dataplane.nftables.fastpath import table
from kubeproxy.linux.conntrack import offloaded
from kubeproxy.linux.links import device_index
from kubeproxy.linux.netlink import nftables as nft
from kubeproxy.linux.netlink import wiring
from kubeproxy.linux.netlink.attribute import attribute, nested
from kubeproxy.linux.netlink.message import NLM_F_CREATE, Message
from kubeproxy.linux.netlink.nfnetlink import request
from kubeproxy.linux.netlink_socket import Link
from kubeproxy.linux.netns import Namespace, in_thread
from kubeproxy.linux.nfnetlink import Nfnetlink
from kubeproxy.linux.sysctl import ensure_sysctl

PACKETS = 10
"""A connection leaves the rules after so many."""
_SECONDS = 3.0
_PORT = 8080
_TO_CLIENT, _TO_SERVER = "client", "server"
_FAR = "eth0"
_LARGE = bytes(range(256)) * 4


class Plan(msgspec.Struct, frozen=True):
    """The addresses of one family."""

    family: Family
    client: str
    to_client: str
    server: str
    to_server: str
    service: str
    length: int
    forwarding: str


_PLANS = {
    Family.IPV4: Plan(
        Family.IPV4,
        "192.0.2.2",
        "192.0.2.1",
        "198.51.100.2",
        "198.51.100.1",
        "203.0.113.1",
        24,
        "net.ipv4.ip_forward",
    ),
    Family.IPV6: Plan(
        Family.IPV6,
        "2001:db8:1::2",
        "2001:db8:1::1",
        "2001:db8:2::2",
        "2001:db8:2::1",
        "2001:db8:3::1",
        64,
        "net.ipv6.conf.all.forwarding",
    ),
}


def self_test(families: Sequence[Family]) -> str:
    """Why the fast path does not work here, or ""; takes a fraction of a second where it does."""
    try:
        return in_thread(lambda: _tried(families))
    except KernelError as error:
        return f"it could not be tried with packets: {error}"
    except OSError as error:
        return f"it could not be tried with packets: {error.strerror or error}"


def _tried(families: Sequence[Family]) -> str:
    with contextlib.ExitStack() as stack:
        client, router, server = (Namespace() for _ in range(3))
        for each in (client, router, server):
            stack.callback(each.close)
        places = Places(client, router, server)
        with router.entered():
            try:
                with Nfnetlink() as kernel:
                    want = table.wanted((), PACKETS)
                    kernel.rehearse(table.replacement(want))
            except KernelError as error:
                return f"the kernel has no flowtables, or lacks a part of them: {error}"
        for family in families:
            _wire(places, _PLANS[family], first=family is families[0])
        for family in families:
            if why_not := _works(places, _PLANS[family]):
                return f"{family.value}: {why_not}"
    return ""


class Places(msgspec.Struct, frozen=True):
    """The three network namespaces."""

    client: Namespace
    router: Namespace
    server: Namespace


def _wire(places: Places, plan: Plan, *, first: bool) -> None:
    ends = (
        (places.client, plan.client, plan.to_client, _TO_CLIENT),
        (places.server, plan.server, plan.to_server, _TO_SERVER),
    )
    if first:
        for place in (places.client, places.router, places.server):
            with place.entered(), contextlib.suppress(KernelError):  # a kernel without IPv6
                ensure_sysctl("net.ipv6.conf.default.accept_dad", 0)
        with places.router.entered(), _routes() as link:
            for place, _, _, name in ends:
                _ask(link, wiring.new_pair_request(name, _FAR, place.fileno()))
                _ask(link, wiring.up_request(device_index(name)))
        for place, _, _, _ in ends:
            with place.entered(), _routes() as link:
                _ask(link, wiring.up_request(device_index(_FAR)))
    with places.router.entered(), _routes() as link:
        ensure_sysctl(plan.forwarding, 1)
        for _, _, here, name in ends:
            _ask(link, wiring.new_address_request(device_index(name), here, plan.length))
    for place, there, here, _ in ends:
        with place.entered(), _routes() as link:
            _ask(link, wiring.new_address_request(device_index(_FAR), there, plan.length))
            _ask(link, wiring.default_route_request(here))
    with places.router.entered(), Nfnetlink() as kernel:
        kernel.commit(_translation(plan))
        if first:
            devices = tuple(sorted((_TO_CLIENT, _TO_SERVER)))
            kernel.commit(table.replacement(table.wanted(devices, PACKETS)))


def _routes() -> Link:
    return Link(socket.NETLINK_ROUTE)


def _ask(link: Link, message: Message) -> None:
    link.request(message, "cannot wire network namespaces")


def _translation(plan: Plan) -> list[bytes]:
    """Messages for a table that sends the service's connections to the server."""
    headers = lang.HEADERS[plan.family]
    services = lang.Set("services", (headers.daddr,), "", (headers.daddr, lang.DPORT))
    hook = lang.Hook("nat", "prerouting", 0, -100, "dstnat")
    to_server = lang.Dnat(plan.family, (headers.daddr,), services.name)
    chain = lang.Chain("prerouting", ((to_server,),), hook)
    program = lang.Program(
        plan.family, "kube-proxy-self-test", "", (), sets=(services,), chains=(chain,)
    )
    key = attribute(nft.NFTA_DATA_VALUE, pack(plan.service))
    data = pack(plan.server) + _PORT.to_bytes(2, "big") + bytes(2)
    element = nested(
        nft.NFTA_LIST_ELEM,
        nested(nft.NFTA_SET_ELEM_KEY, key),
        nested(nft.NFTA_SET_ELEM_DATA, attribute(nft.NFTA_DATA_VALUE, data)),
    )
    named = nft.set_elements(program.table, services.name, element)
    kind, family = nft.NFT_MSG_NEWSETELEM, NFPROTO[plan.family]
    return [*program_messages(program), request(kind, family, named, NLM_F_CREATE)]


def _works(places: Places, plan: Plan) -> str:
    """Why packets of one family do not flow as they should, or ""."""
    with _connected(places, plan) as exchanges:
        for protocol, exchange in exchanges.items():
            what = f"{protocol.name} packets"
            if not all(exchange(b"hello") for _ in range(PACKETS // 2)):
                return f"{what} do not arrive, though no connection has left the rules yet"
            if not all(exchange(b"hello") for _ in range(2 * PACKETS)):
                return f"{what} are lost when their connection leaves the rules"
        with places.router.entered():
            count = offloaded(plan.family)
        if count != len(exchanges):
            return (
                f"packets flow, but only {count} of {len(exchanges)} connections leave the rules"
            )
        for protocol, exchange in exchanges.items():
            if not all(exchange(_LARGE) for _ in range(PACKETS)):
                return f"{protocol.name} packets are lost past the rules"
    return ""


Exchange = Callable[[bytes], bool]


@contextlib.contextmanager
def _connected(places: Places, plan: Plan) -> Iterator[dict[Protocol, Exchange]]:
    """A connection of each protocol: functions that send something there and back."""
    kind = socket.AF_INET6 if plan.family is Family.IPV6 else socket.AF_INET
    with contextlib.ExitStack() as stack:

        def opened(type_: int) -> socket.socket:
            made = stack.enter_context(socket.socket(kind, type_))
            made.settimeout(_SECONDS)
            return made

        with places.server.entered():
            listener, datagrams = opened(socket.SOCK_STREAM), opened(socket.SOCK_DGRAM)
            listener.bind((plan.server, _PORT))
            listener.listen()
            datagrams.bind((plan.server, _PORT))
        with places.client.entered():
            stream, asking = opened(socket.SOCK_STREAM), opened(socket.SOCK_DGRAM)
        stream.connect((plan.service, _PORT))
        accepted, _ = listener.accept()
        stack.enter_context(accepted).settimeout(_SECONDS)
        asking.connect((plan.service, _PORT))
        yield {
            Protocol.TCP: lambda data: _through(stream, accepted, data),
            Protocol.UDP: lambda data: _asked(asking, datagrams, data),
        }


def _through(one: socket.socket, other: socket.socket, data: bytes) -> bool:
    """Whether data comes through a stream, there and back."""
    try:
        for source, target in ((one, other), (other, one)):
            source.sendall(data)
            received = b""
            while len(received) < len(data) and (more := target.recv(len(data))):
                received += more
            if received != data:
                return False
    except TimeoutError:
        return False
    return True


def _asked(one: socket.socket, other: socket.socket, data: bytes) -> bool:
    """Whether a datagram arrives, and its answer too."""
    try:
        one.send(data)
        received, client = other.recvfrom(len(data))
        other.sendto(received, client)
        return one.recv(len(data)) == data
    except TimeoutError:
        return False
