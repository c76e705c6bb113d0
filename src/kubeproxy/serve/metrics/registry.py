"""All families and their text: sorted by name, made in short pieces."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from kubeproxy.base import klog
from kubeproxy.base.errors import KubeProxyError
from kubeproxy.serve.metrics.families import MetricFamily, Sample, header, number

PIECE = 500
"""Lines that are made before other tasks run on the event loop: about a millisecond."""
PATIENCE = 5.0
"""Seconds that one family which is read in a thread may take."""


class Registry:
    """The families that a scrape shows."""

    def __init__(self) -> None:
        self._families: dict[str, MetricFamily] = {}
        self._threaded: set[str] = set()
        self._thread: ThreadPoolExecutor | None = None

    def add(self, *families: MetricFamily, in_thread: bool = False) -> None:
        """Add families; `in_thread` those whose `samples` waits for the kernel or reads much.

        One thread reads all of these, one after the other; nothing else uses it.
        """
        for family in families:
            name = family.about.name
            if name in self._families:
                raise ValueError(f"{name}: there is a family of this name already")
            self._families[name] = family
            if in_thread:
                self._threaded.add(name)

    def families(self) -> list[MetricFamily]:
        """All families, sorted by name."""
        return [self._families[name] for name in sorted(self._families)]

    async def expose(self, only: Collection[str] = ()) -> AsyncIterator[str]:
        """The text, in pieces; `only` names the families that are wanted, if not all."""
        lines: list[str] = []
        for family in self.families():
            about = family.about
            if only and about.name not in only:
                continue
            rendered = _lines(about.name, await self._samples(family))
            first = next(rendered, None)
            if first is None:
                continue
            lines += (header(about.name, about.kind.value, about.help), first)
            while True:
                lines += islice(rendered, PIECE - len(lines))
                if len(lines) < PIECE:
                    break
                yield "".join(lines)
                lines.clear()
                await asyncio.sleep(0)
        yield "".join(lines)

    async def _samples(self, family: MetricFamily) -> Iterable[Sample]:
        name = family.about.name
        if name not in self._threaded:
            return family.samples()
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "scrape")
        reading = asyncio.get_running_loop().run_in_executor(
            self._thread, lambda: list(family.samples())
        )
        try:
            async with asyncio.timeout(PATIENCE):
                return await reading
        except TimeoutError:
            klog.error("Metric skipped, reading it took too long", metric=name)
        except KubeProxyError as error:
            klog.error("Metric skipped, it cannot be read", err=error, metric=name)
        return ()

    def close(self) -> None:
        """End the thread."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)


def _lines(name: str, samples: Iterable[Sample]) -> Iterator[str]:
    for labels, value, suffix in samples:
        yield f"{name}{suffix}{labels} {number(value)}\n"
