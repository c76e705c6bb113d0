"""The tables of outages: results in, text and a picture out."""

from collections.abc import Callable, Iterator, Sequence

from bench.figures import Metric, Run
from bench.outage.figures import ALWAYS, METRICS, Results, failed, together, with_share
from bench.picture import Bar, Panel, picture
from bench.results import columns, problems, sizes
from bench.tables import Row, markdown, runs

FAILED = Metric("failed", "new connections that failed", "%")
_DRAWN: dict[Metric, Callable[[dict[str, float]], float]] = {
    FAILED: lambda found: 100 * failed(found) / found["connects"],
    Metric("stalled", "long-lived connections stalled, together", "s", 0): (
        lambda found: found["stalled"]
    ),
    Metric("longest", "longest time without an answer on one", "s"): (
        lambda found: found["longest"]
    ),
}


def page(results: Results) -> str:
    """One table with every client, and the runs that have no place in it."""
    return "\n".join(_lines(results))


def _lines(results: Results) -> Iterator[str]:
    versions = "; ".join(f"{name} is {version}" for name, version in results.proxies.items())
    yield (
        f"Measured on {results.date} with `{results.command}`, commit `{results.code.commit}`. "
        f"{versions}.\n"
    )
    yield markdown(rows(results.outages)) + "\n"
    yield from _problems(results.outages)


def section(results: Results) -> Iterator[str]:
    """What the page of all benchmarks has: all clients of a run as one."""
    found = together(results.outages)
    loads = [run.load for run in results.outages]
    count = max(run.number for run in found)
    of = "One run" if count == 1 else f"Medians of {runs(count)}"
    yield (
        "What clients notice, from a pod, from the node and from outside, all together. "
        '"Healing" is the same proxy with `nftables.healing.parts: all`. '
        f"{of}. {results.machine.cores} cores of {results.machine.processor}, Linux "
        f"{results.machine.kernel}; load before each {min(loads):.1f} to {max(loads):.1f}. "
        "[performance-outage.json](performance-outage.json) has each client.\n"
    )
    yield "![failed and stalled connections, by scenario](performance-outage.svg)\n"
    yield markdown(rows(found)) + "\n"
    yield from _problems(found)


def drawn(results: Results) -> str:
    """The picture beside that."""
    found = together(results.outages)
    panels = []
    for metric, value in _DRAWN.items():
        bars = {
            size: [Bar(size, each.proxy, value(each.figures)) for each in columns(found, size)]
            for size in sizes(found)
        }
        # Where nothing happened to anybody, there is nothing to see.
        shown = [each for of in bars.values() if any(bar.value for bar in of) for each in of]
        panels.append(Panel(metric, tuple(shown)))
    return picture(panels)


def _problems(measured: Sequence[Run]) -> Iterator[str]:
    for size in sizes(measured):
        for problem in problems(measured, size):
            yield f"{size}: {problem}.\n"


def rows(measured: Sequence[Run]) -> list[Row]:
    """Scenarios and clients down, with what happened to any proxy; a column for each proxy."""
    proxies = list(dict.fromkeys(run.proxy for run in measured))
    found: list[Row] = [("", *proxies)]
    for size in sizes(measured):
        figures = {column.proxy: with_share(column.figures) for column in columns(measured, size)}
        found.append((size, *("" for _ in proxies)))
        for metric in METRICS:
            values = [figures.get(proxy, {}).get(metric.key) for proxy in proxies]
            if any(values) or metric.key in ALWAYS:
                found.append((f"  {metric.label}", *(_shown(each, metric) for each in values)))
    return found


def _shown(value: float | None, metric: Metric) -> str:
    if value is None:
        return "-"
    return f"{value:,.{metric.digits}f} {metric.unit}".rstrip()
