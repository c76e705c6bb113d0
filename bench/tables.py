"""Figures as tables: for a terminal, and for a page."""

from collections.abc import Sequence

from bench.figures import Metric, ratio
from bench.results import Column

Row = tuple[str, ...]


def rows(metrics: Sequence[Metric], columns: Sequence[Column]) -> list[Row]:
    """A row for each figure; with two columns, how many times the first the second is."""
    head = ("", *(f"{column.proxy} ({runs(column.count)})" for column in columns))
    compared = len(columns) == 2 and any(metric.compared for metric in metrics)
    found = [(*head, "ratio") if compared else head]
    for metric in metrics:
        values = [column.figures.get(metric.key) for column in columns]
        if all(value is None for value in values):
            continue
        row = (metric.label, *(_shown(value, metric) for value in values))
        found.append((*row, _ratio(values) if metric.compared else "") if compared else row)
    return found


def plain(table: Sequence[Row]) -> str:
    """The table for a terminal."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = []
    for label, *cells in table:
        padded = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        lines.append("  ".join((label.ljust(widths[0]), *padded)).rstrip())
    return "\n".join(lines)


def markdown(table: Sequence[Row]) -> str:
    """The table for a page."""
    head, *body = [(_indented(label), *cells) for label, *cells in table]
    rule = ("---", *("---:" for _ in head[1:]))
    return "\n".join("| " + " | ".join(cells).strip() + " |" for cells in (head, rule, *body))


def _indented(label: str) -> str:
    """A label that stands in from the edge of its cell."""
    text = label.lstrip()
    return "&nbsp;" * (len(label) - len(text)) + text


def runs(count: int) -> str:
    """Of how many runs a figure is."""
    return f"{count} run" + ("s" if count != 1 else "")


def _shown(value: float | None, metric: Metric) -> str:
    if value is None:
        return "-"
    return f"{value:,.{metric.digits}f} {metric.unit}".rstrip()


def _ratio(values: Sequence[float | None]) -> str:
    ours, peers = values
    found = None if ours is None or peers is None else ratio(ours, peers)
    return "" if found is None else f"x {found:.1f}" if found < 100 else f"x {found:,.0f}"
