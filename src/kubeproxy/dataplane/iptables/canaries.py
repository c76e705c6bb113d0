"""Notices when somebody flushes the tables: chains of no use tell, by being gone.

They are all there is with the legacy programs, of whose tables the kernel tells nothing. What they
cannot tell is that somebody empties a chain and leaves the others.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeVar

from kubeproxy.base import klog
from kubeproxy.base.errors import KernelError
from kubeproxy.dataplane.iptables.names import CANARY
from kubeproxy.linux.xtables import Xtables

_TABLES = ("mangle", "nat", "filter")
_SETTLE_SECONDS = 5.0
_SETTLE_POLL = 0.1

_T = TypeVar("_T")


async def watch_canaries(programs: Xtables, lost: Callable[[], None], period: float) -> None:
    """Call `lost` after a flush, until cancelled; the canaries are visited once a period.

    A canary that is gone is put back only after `lost` was called: to put it back is to forget
    the flush. Who cannot look, because the lock is held for long, keeps looking.
    """
    canaries = _Canaries(programs, period)
    await canaries.wait_placed()
    while True:
        await canaries.wait_gone()
        await canaries.wait_settled()
        lost()
        if await canaries.wait_placed():
            lost()  # a flush meanwhile could not be noticed


class _Canaries:
    """The canaries of one family."""

    def __init__(self, programs: Xtables, period: float) -> None:
        self._programs = programs
        self._period = period

    async def wait_placed(self) -> bool:
        """Place those that are not there; whether that took more than one try."""
        _, failures = await self._insist(self._place)
        return failures > 0

    async def wait_gone(self) -> None:
        """Return when one is gone."""
        while (await self._insist(self._are_all_there))[0]:  # noqa: ASYNC110  # nobody tells
            await asyncio.sleep(self._period)

    async def wait_settled(self) -> None:
        """Give whoever flushes one table after the other time to get done."""
        with contextlib.suppress(KernelError, TimeoutError):
            async with asyncio.timeout(_SETTLE_SECONDS):
                while await asyncio.to_thread(self._is_any_there):  # noqa: ASYNC110  # nobody tells
                    await asyncio.sleep(_SETTLE_POLL)

    async def _insist(self, do: Callable[[], _T]) -> tuple[_T, int]:
        """What comes of it in the end, and how often it failed before."""
        failures = 0
        while True:
            try:
                return await asyncio.to_thread(do), failures
            except KernelError as error:
                failures += 1
                klog.error("Cannot tell whether the rules are still there", err=error)
                await asyncio.sleep(self._period)

    def _place(self) -> None:
        for table in _TABLES:
            self._programs.ensure_chain(table, CANARY)

    def _are_all_there(self) -> bool:
        return all(self._programs.has_chain(table, CANARY) for table in _TABLES)

    def _is_any_there(self) -> bool:
        return any(self._programs.has_chain(table, CANARY) for table in _TABLES)
