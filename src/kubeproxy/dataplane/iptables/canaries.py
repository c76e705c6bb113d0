"""Detects a flush of the tables: chains without a use, the canaries, are then gone.

There is nothing else with the legacy programs: the kernel sends no messages about their tables.
Canaries do not show that a chain was emptied and the others were left.
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
    """Call `lost` after a flush, until cancelled; the canaries are checked once a period.

    A missing canary is put back only after `lost` was called: putting it back forgets the flush.
    A check that fails, because the lock is held for long, is repeated.
    """
    canaries = _Canaries(programs, period)
    await canaries.wait_placed()
    while True:
        await canaries.wait_gone()
        await canaries.wait_settled()
        lost()
        if await canaries.wait_placed():
            lost()  # a flush meanwhile could not be detected


class _Canaries:
    """The canaries of one family."""

    def __init__(self, programs: Xtables, period: float) -> None:
        self._programs = programs
        self._period = period

    async def wait_placed(self) -> bool:
        """Place those that are not there; whether that took more than one try."""
        _, failures = await self._repeat(self._place)
        return failures > 0

    async def wait_gone(self) -> None:
        """Return when one is gone."""
        while (await self._repeat(self._are_all_there))[0]:  # noqa: ASYNC110  # there is no event
            await asyncio.sleep(self._period)

    async def wait_settled(self) -> None:
        """Give a flush of one table after the other time to finish."""
        with contextlib.suppress(KernelError, TimeoutError):
            async with asyncio.timeout(_SETTLE_SECONDS):
                while await asyncio.to_thread(self._is_any_there):  # noqa: ASYNC110  # there is no event
                    await asyncio.sleep(_SETTLE_POLL)

    async def _repeat(self, do: Callable[[], _T]) -> tuple[_T, int]:
        """The result in the end, and how often it failed before."""
        failures = 0
        while True:
            try:
                return await asyncio.to_thread(do), failures
            except KernelError as error:
                failures += 1
                klog.error("Cannot check whether the rules are still there", err=error)
                await asyncio.sleep(self._period)

    def _place(self) -> None:
        for table in _TABLES:
            self._programs.ensure_chain(table, CANARY)

    def _are_all_there(self) -> bool:
        return all(self._programs.has_chain(table, CANARY) for table in _TABLES)

    def _is_any_there(self) -> bool:
        return any(self._programs.has_chain(table, CANARY) for table in _TABLES)
