"""Detects a flush of the tables: chains without a use, the canaries, are then gone.

There is nothing else with the legacy programs: the kernel sends no messages about their tables.
Canaries do not show that a chain was emptied and the others were left.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from functools import partial

from kubeproxy.base import klog
from kubeproxy.base.errors import KernelError
from kubeproxy.dataplane.contract import Lost
from kubeproxy.dataplane.iptables.names import CANARY
from kubeproxy.linux.xtables import Xtables

_TABLES = ("mangle", "nat", "filter")
_SETTLE_SECONDS = 5.0
_SETTLE_POLL = 0.1


async def watch_canaries(programs: Xtables, lost: Lost, period: float) -> None:
    """Call `lost` after a flush, until cancelled; the canaries are checked once a period.

    A missing canary is put back only after `lost` was called: putting it back forgets the flush.
    A check that fails, because the lock is held for long, is repeated.
    """

    def place() -> bool:
        for table in _TABLES:
            programs.ensure_chain(table, CANARY)
        return True

    def are_there(test: Callable[[Iterable[bool]], bool]) -> bool:
        return test(programs.has_chain(table, CANARY) for table in _TABLES)

    await _repeat(place, period)
    while True:
        while (await _repeat(partial(are_there, all), period))[0]:  # noqa: ASYNC110  # no event
            await asyncio.sleep(period)
        with contextlib.suppress(KernelError, TimeoutError):  # a flush goes on table by table
            async with asyncio.timeout(_SETTLE_SECONDS):
                while await asyncio.to_thread(are_there, any):  # noqa: ASYNC110  # no event
                    await asyncio.sleep(_SETTLE_POLL)
        lost(None)
        _, failures = await _repeat(place, period)
        if failures:
            lost(None)  # a flush meanwhile could not be detected


async def _repeat(do: Callable[[], bool], pause: float) -> tuple[bool, int]:
    """The result in the end, and how often it failed before."""
    failures = 0
    while True:
        try:
            return await asyncio.to_thread(do), failures
        except KernelError as error:
            failures += 1
            klog.error("Cannot check whether the rules are still there", err=error)
            await asyncio.sleep(pause)
