"""Keeps the table of the fast path: as devices come and go, and when connections have to leave it.

It has a transaction of its own, so that a device which is gone by then never fails the rules.
"""

import asyncio
import contextlib
import errno
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from kubeproxy.base import klog
from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.contract import FastPathState
from kubeproxy.dataplane.nftables.dump import read_rules
from kubeproxy.dataplane.nftables.fastpath import table
from kubeproxy.dataplane.nftables.fastpath.choice import chosen
from kubeproxy.dataplane.nftables.guard import TableGuard
from kubeproxy.linux import links
from kubeproxy.linux.conntrack import offloaded
from kubeproxy.linux.netlink import nftables as nft
from kubeproxy.linux.netlink.nfnetlink import NFPROTO_INET
from kubeproxy.linux.netlink_socket import Refused, tolerating
from kubeproxy.linux.nfnetlink import Nfnetlink

PAUSE_SECONDS = 1.0
"""Between two transactions: pods come and go in crowds."""
CHECK_SECONDS = 30.0
"""Nothing tells us when others flush the table: it is read that often."""
RETRY_SECONDS = 5.0
_ATTEMPTS = 5
NOTHING_KNOWN: Mapping[str, int] = {}


class Settings(msgspec.Struct, frozen=True):
    """What the configuration says."""

    enabled: bool = False
    packets: int = 20
    interfaces: tuple[str, ...] = ()


class Reason:
    """Why the fast path is off, in a word."""

    DISABLED = "disabled"
    STARTING = "starting"
    SELF_TEST = "self-test"
    REFUSED = "refused"


class FastPath:
    """The fast path of this node.

    `self_test` says why it does not work here, or ""; it is called once, in a thread of its own.
    """

    def __init__(
        self,
        settings: Settings,
        families: tuple[Family, ...],
        self_test: Callable[[Sequence[Family]], str],
        guard: TableGuard,
    ) -> None:
        self._settings = settings
        self._guard = guard
        self._families = families
        self._self_test = self_test
        self._wake = asyncio.Event()
        self._has_to_leave = False
        self._mtus: Mapping[str, int] = {}
        reason = Reason.STARTING if settings.enabled else Reason.DISABLED
        self._state = FastPathState(settings.enabled, reason, packets=settings.packets)

    @property
    def state(self) -> FastPathState:
        """How it is now."""
        return self._state

    def connections(self) -> dict[Family, int]:
        """How many connections of each family take it; reads the kernel: call it in a thread."""
        return {family: offloaded(family) for family in self._families if self._state.on}

    def release(self) -> None:
        """Have all connections leave it: their next packets meet the rules again."""
        self._has_to_leave = True
        self._wake.set()

    async def run(self) -> None:
        """Keep it as it should be, until cancelled; where it is not wanted, see that it is off."""
        if self._settings.enabled:
            why_not = await asyncio.to_thread(self._self_test, self._families)
            if not why_not:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(links.watch_devices(self._wake.set))
                    tasks.create_task(self._keep())
            self._off(Reason.SELF_TEST, why_not)
        try:
            async with self._guard.turn():
                removed = await asyncio.to_thread(remove)
                self._guard.committed(removed)
            if removed:
                klog.info("Removed the fast path of an earlier run")
        except KernelError as error:
            klog.error("The fast path of an earlier run cannot be removed", err=error)

    async def _keep(self) -> None:
        while True:
            self._wake.clear()
            leave, self._has_to_leave = self._has_to_leave, False
            try:
                async with self._guard.turn():
                    bringing = partial(bring, self._settings, self._mtus, leave=leave)
                    done = await asyncio.to_thread(bringing)
                    self._guard.committed(done.commits)
            except KernelError as error:
                self._has_to_leave |= leave
                self._off(Reason.REFUSED, f"the kernel refuses its table: {error}")
                await asyncio.sleep(RETRY_SECONDS)
                continue
            self._mtus = done.mtus
            self._on(done)
            await asyncio.sleep(PAUSE_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await self._wake.wait()

    def _on(self, done: "Done") -> None:
        before = self._state
        self._state = msgspec.structs.replace(
            before, reason="", why_not="", devices=done.devices, left_out=done.left_out
        )
        if done.left_out and done.left_out != before.left_out:
            klog.info("Devices cannot take part in the fast path", devices=list(done.left_out))
        if not before.on:
            klog.info(
                "Established connections take the fast path",
                afterPackets=self._settings.packets,
                devices=list(done.devices),
            )

    def _off(self, reason: str, why_not: str) -> None:
        if (reason, why_not) != (self._state.reason, self._state.why_not):
            klog.error("The fast path is off, and all packets meet the rules", err=why_not)
        self._state = msgspec.structs.replace(
            self._state, reason=reason, why_not=why_not, devices=(), left_out=()
        )


class Done(msgspec.Struct, frozen=True):
    """The devices that take part now, how large their packets may be, and those left out.

    It took so many transactions.
    """

    devices: tuple[str, ...]
    mtus: Mapping[str, int] = {}
    left_out: tuple[str, ...] = ()
    commits: int = 0


def bring(
    settings: Settings, mtus: Mapping[str, int] = NOTHING_KNOWN, *, leave: bool = False
) -> Done:
    """Make the table as it should be; if connections have to `leave`, make it anew.

    They have to as well when a device has another MTU than before (`mtus`): each connection goes
    on with the one from when it left the rules.
    A device that vanishes meanwhile makes the kernel refuse: then what is there is read again.
    """
    left_out: tuple[str, ...] = ()
    with Nfnetlink() as kernel:
        for attempt in range(_ATTEMPTS):
            there = links.devices()
            now = {device.name: device.mtu for device in there}
            leave |= any(now.get(name, mtu) != mtu for name, mtu in mtus.items())
            names = chosen(there, settings.interfaces)
            devices = tuple(name for name in names if name not in left_out)
            want = table.wanted(devices, settings.packets)
            found = read(kernel)
            is_ours = found is not None and found.rules == want.rules
            try:
                if found is None or leave or not is_ours:
                    commits = commit(kernel, table.replacement(want))
                else:
                    commits = commit(kernel, table.difference(found, want))
                    for message in table.lost_names(found, want):
                        with tolerating(errno.ENOENT):
                            commits += commit(kernel, [message])
            except Refused:
                left_out = unfit(kernel, devices, settings.packets)
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                refused = tuple(name for name in left_out if name in names)
                mtus = {name: now[name] for name in devices}
                return Done(devices, mtus, refused, commits)
    raise AssertionError  # the last attempt raises


def commit(kernel: Nfnetlink, messages: Sequence[bytes]) -> int:
    """Carry them out as one transaction, if there are any; how many transactions that took."""
    kernel.commit(messages)
    return bool(messages)


def unfit(kernel: Nfnetlink, devices: Sequence[str], packets: int) -> tuple[str, ...]:
    """The devices that the kernel refuses each by itself."""
    found = []
    for name in devices:
        try:
            kernel.rehearse(table.replacement(table.wanted((name,), packets)))
        except Refused:
            found.append(name)
    return tuple(found)


def read(kernel: Nfnetlink) -> table.Found | None:
    """What the kernel has; None when there is no such table."""
    named = table.flowtable_named()
    with tolerating(errno.ENOENT):
        # One whose devices do not fit into the answer has EPERM, as if there were no right to it.
        devices: tuple[str, ...] | None = None
        with tolerating(errno.EPERM):
            flowtable = kernel.get(nft.NFT_MSG_GETFLOWTABLE, NFPROTO_INET, named)
            devices = nft.flowtable_devices(flowtable)
        elements = nft.set_elements(table.TABLE, table.INTERFACES)
        interfaces = kernel.dump(nft.NFT_MSG_GETSETELEM, NFPROTO_INET, elements)
        rules = read_rules(kernel.dump(nft.NFT_MSG_GETRULE, NFPROTO_INET, table.rules_named()))
        return table.Found(
            devices,
            table.names_in(interfaces),
            tuple(rule.expressions for rule in rules.get(table.CHAIN, ())),
        )
    return None


def remove() -> bool:
    """Remove the table; whether there was one."""
    with tolerating(errno.ENOENT), Nfnetlink() as kernel:
        kernel.commit((table.removal(),))
        return True
    return False
