"""The two ways to the listeners: rules that redirect packets, or ports that clients dial.

Rules take the right to write them (CAP_NET_ADMIN). Without it listeners have the ports of node
ports, and those that the operator maps to services.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from kubeproxy.base import klog
from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family, family_of, join
from kubeproxy.base.writer import Writer
from kubeproxy.dataplane.contract import Lost
from kubeproxy.dataplane.userspace import rules
from kubeproxy.dataplane.userspace.listeners import SERVED, Listener, Place, given, listener_of
from kubeproxy.dataplane.userspace.rules import Element, Port
from kubeproxy.dataplane.userspace.settings import QUIRKS, TABLE, Mapped, UserspaceSettings
from kubeproxy.dataplane.userspace.sockets import ANY
from kubeproxy.linux import tools
from kubeproxy.linux.netlink import nftables as nft
from kubeproxy.linux.netlink.message import Message
from kubeproxy.linux.netlink.nfnetlink import NFPROTO_IPV4, NFPROTO_IPV6, attributes_in
from kubeproxy.linux.nfnetlink import Nfnetlink, NftablesChanges
from kubeproxy.table.entries import Entry, Frontend, FrontendKind
from kubeproxy.table.node import NodeView
from kubeproxy.table.policy import Source
from kubeproxy.table.route import route

_NUMBER = {Family.IPV4: NFPROTO_IPV4, Family.IPV6: NFPROTO_IPV6}
FIRST_PORT = 1024
"""Ports below take a right of their own."""


class Reach(Protocol):
    """A way to the listeners."""

    def listeners(self, entry: Entry, node: NodeView) -> Mapping[Listener, Place]:
        """The listeners of a service port, and where they listen."""
        ...

    def elements(self, entry: Entry, node: NodeView, port: Port) -> frozenset[Element]:
        """What a service port needs in the kernel."""
        ...

    def replace(self, node: NodeView, every: Iterable[Element]) -> None:
        """Have this in the kernel, whatever was there."""
        ...

    def change(self, gone: Iterable[Element], come: Iterable[Element]) -> None:
        """Take this out of the kernel, and put that in."""
        ...

    async def watch(self, turn: asyncio.Lock, lost: Lost) -> None:
        """Call `lost` when others change what is there; who writes has the turn."""
        ...


class _Finished(NamedTuple):
    """A transaction about our table, by its generation; 0 where notifications were lost."""

    generation: int
    writer: Writer | None


class Redirected:
    """A table of nftables leads packets to the listeners, whose ports are any that are free."""

    def __init__(self, family: Family, writing: threading.Lock) -> None:
        self._family = family
        self._writing = writing  # of both families, so that each knows its own transactions
        self._own: set[int] = set()

    def listeners(self, entry: Entry, node: NodeView) -> Mapping[Listener, Place]:
        """One for each frontend; two where the node and its pods get other endpoints."""
        place = Place(ANY[self._family], 0)
        return {each: place for found in given(entry, node) for each in found.listeners}

    def elements(self, entry: Entry, node: NodeView, port: Port) -> frozenset[Element]:
        """The elements of the table."""
        return rules.elements(entry, node, port)

    def replace(self, node: NodeView, every: Iterable[Element]) -> None:
        """Make the table anew."""
        self._write(rules.whole_table(node, every))

    def change(self, gone: Iterable[Element], come: Iterable[Element]) -> None:
        """Change the elements."""
        text = rules.change(self._family, gone, come)
        if text:
            self._write(text)

    async def watch(self, turn: asyncio.Lock, lost: Lost) -> None:
        """Follow the kernel's notifications: a transaction's objects, then its generation."""
        finished: asyncio.Queue[_Finished] = asyncio.Queue()
        concerned = False

        def receive(message: Message | None) -> None:
            nonlocal concerned
            if message is None:
                finished.put_nowait(_Finished(0, None))
            elif message.type != nft.NFT_MSG_NEWGEN:
                concerned = concerned or self._concerns(message)
            elif concerned:
                concerned = False
                generation = nft.generation_in(message) or 0
                finished.put_nowait(_Finished(generation, nft.writer_in(message)))

        with NftablesChanges() as changes:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(changes.follow(receive))
                while True:
                    generation, writer = await finished.get()
                    async with turn:  # then what was written is known
                        if generation not in self._own:
                            lost(writer)
                        self._own = {each for each in self._own if each > generation}

    def _concerns(self, message: Message) -> bool:
        found = attributes_in(message)
        ours = found.get(nft.NFTA_SET_ELEM_LIST_TABLE) == TABLE.encode() + b"\0"
        return ours and message.payload[0] == _NUMBER[self._family]

    def _write(self, text: str) -> None:
        """Write, and note which generation of the rules that makes."""
        with self._writing, Nfnetlink() as kernel:
            before = kernel.generation()
            write(text)
            if kernel.generation() == before + 1:
                self._own.add(before + 1)


class Dialled:
    """Clients dial the listeners themselves: at node ports, and at places that are mapped."""

    def __init__(self, family: Family, mapped: Iterable[Mapped]) -> None:
        self._family = family
        self._mapped = tuple(mapped)

    def listeners(self, entry: Entry, node: NodeView) -> Mapping[Listener, Place]:
        """The listeners of a service port that has endpoints: a port without any is closed.

        Clients get what clients outside get: where they come from is not looked at.
        """
        wanted = [
            Frontend(FrontendKind.NODE_PORT, place.address, place.port)
            for frontend in entry.frontends
            if frontend.kind is FrontendKind.NODE_PORT and frontend.port >= FIRST_PORT
            for place in self._node_ports(frontend.port, node)
        ]
        wanted += [
            Frontend(FrontendKind.EXTERNAL_IP, each.address, each.number)
            for each in self._mapped
            if family_of(each.address) is self._family and _means(each, entry)
        ]
        found: dict[Listener, Place] = {}
        for frontend in wanted:
            chosen = route(entry, frontend.kind, Source.OUTSIDE, node.masquerading, QUIRKS)
            if chosen.backends and entry.protocol in SERVED:
                listener = listener_of(entry, frontend, chosen.scope)
                found[listener] = Place(frontend.address, frontend.port)
        return found

    def _node_ports(self, port: int, node: NodeView) -> Iterator[Place]:
        """Where a node port is served: with one socket, where that is all addresses."""
        if any(range_.length == 0 for range_ in node.node_port_ranges):
            yield Place(ANY[self._family], port)
            return
        yield from (Place(each, port) for each in node.node_port_addresses(QUIRKS))

    def elements(self, _entry: Entry, _node: NodeView, _port: Port) -> frozenset[Element]:
        """Nothing is written."""
        return frozenset()

    def replace(self, _node: NodeView, _every: Iterable[Element]) -> None:
        """Nothing is written."""

    def change(self, _gone: Iterable[Element], _come: Iterable[Element]) -> None:
        """Nothing is written."""

    async def watch(self, _turn: asyncio.Lock, _lost: Lost) -> None:
        """Nothing that others do changes anything."""


def _means(mapped: Mapped, entry: Entry) -> bool:
    """Whether the place leads to this service port."""
    if (mapped.namespace, mapped.service) != entry.name.owner:
        return False
    numbers = {str(f.port) for f in entry.frontends if f.kind is FrontendKind.CLUSTER_IP}
    return mapped.port in {"", entry.name.port, *numbers}


def chosen_reach(
    settings: UserspaceSettings, writing: threading.Lock
) -> Callable[[Family], Reach]:
    """The way that this machine allows, for a family; the log says which."""
    reason = why_no_rules()
    if not reason:
        if settings.mapped:
            klog.warning("userspace.portMap has no effect where rules can be written")
        klog.info("A table of nftables leads packets to the listeners", table=TABLE)
        return lambda family: Redirected(family, writing)
    klog.warning(
        "Rules cannot be written: only node ports from 1024 and the places of userspace.portMap"
        " are served, and no other addresses of Services",
        reason=reason,
        portMap=[
            f"{join(each.address, each.number)}={each.namespace}/{each.service}"
            for each in settings.mapped
        ],
    )
    return lambda family: Dialled(family, settings.mapped)


def why_no_rules() -> str:
    """Why rules cannot be written on this machine; "" when they can."""
    if tools.find("nft") is None:
        return "the program nft is not installed"
    try:
        with Nfnetlink() as kernel:
            kernel.generation()
    except KernelError as error:
        return str(error)
    return ""


def write(text: str) -> None:
    """Have `nft` carry out a text, in one transaction."""
    tools.run([tools.find("nft") or "nft", "-f", "-"], text)
