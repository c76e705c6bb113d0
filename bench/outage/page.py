"""The table of outages: results in, text out."""

from collections.abc import Iterator, Sequence

from bench.figures import Metric, Run
from bench.outage.figures import ALWAYS, METRICS, Results
from bench.results import columns, problems, sizes
from bench.tables import Row, markdown


def page(results: Results) -> str:
    """One table, and the runs that have no place in it."""
    return "\n".join(_lines(results))


def _lines(results: Results) -> Iterator[str]:
    versions = "; ".join(f"{name} is {version}" for name, version in results.proxies.items())
    yield (
        f"Measured on {results.date} with `{results.command}`, commit `{results.code.commit}`. "
        f"{versions}.\n"
    )
    yield markdown(rows(results.outages)) + "\n"
    for size in sizes(results.outages):
        for problem in problems(results.outages, size):
            yield f"{size}: {problem}.\n"


def rows(runs: Sequence[Run]) -> list[Row]:
    """Scenarios and clients down, with what happened to any proxy; a column for each proxy."""
    proxies = list(dict.fromkeys(run.proxy for run in runs))
    found: list[Row] = [("", *proxies)]
    for size in sizes(runs):
        figures = {column.proxy: column.figures for column in columns(runs, size)}
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
