"""A picture of the figures: bars, as SVG, drawn by hand because that is little work."""

from collections.abc import Iterator, Sequence
from html import escape

import msgspec

from bench.figures import Metric

WIDTH = 860
_LABELS = 210
_VALUES = 110
_BAR = 16
_GAP = 10
_TITLE = 34
_STEP = 180
"""From one name of the legend to the next, if they are not long."""
_COLOURS = ("#2563a8", "#c2702a", "#5a8f3c", "#8257a3", "#777777")


class Bar(msgspec.Struct, frozen=True):
    """One value: of which group (a size), and of which proxy."""

    group: str
    series: str
    value: float


class Panel(msgspec.Struct, frozen=True):
    """One figure of all proxies at all sizes."""

    metric: Metric
    bars: tuple[Bar, ...]


def picture(panels: Sequence[Panel]) -> str:
    """The panels below each other, with one legend."""
    series = list(dict.fromkeys(bar.series for panel in panels for bar in panel.bars))
    colours = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(series)}
    parts, top = list(_legend(colours)), 40.0
    for panel in panels:
        drawn, top = _panel(panel, colours, top)
        parts += drawn
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top:.0f}" '
        f'viewBox="0 0 {WIDTH} {top:.0f}" font-family="sans-serif" font-size="12">'
    )
    paper = f'<rect width="{WIDTH}" height="{top:.0f}" fill="#ffffff"/>'
    return "\n".join((head, paper, *parts, "</svg>")) + "\n"


def _legend(colours: dict[str, str]) -> Iterator[str]:
    step = max(_STEP, 34 + 7 * max(map(len, colours), default=0))
    for number, (name, colour) in enumerate(colours.items()):
        left = 16 + number * step
        yield f'<rect x="{left}" y="14" width="12" height="12" fill="{colour}"/>'
        yield _text(left + 18, 25, name)


def _panel(panel: Panel, colours: dict[str, str], top: float) -> tuple[list[str], float]:
    metric = panel.metric
    unit = f" ({metric.unit})" if metric.unit else ""
    parts = [_text(16, top + 20, metric.label + unit, weight="bold")]
    top += _TITLE
    longest = max((bar.value for bar in panel.bars), default=0) or 1
    room = WIDTH - _LABELS - _VALUES
    group = ""
    for bar in panel.bars:
        if bar.group != group:
            top += _GAP if group else 0
            group = bar.group
            parts.append(_text(_LABELS - 12, top + 12, group, anchor="end"))
        width = max(1.0, room * bar.value / longest)
        colour = colours[bar.series]
        parts.append(
            f'<rect x="{_LABELS}" y="{top:.0f}" width="{width:.1f}" height="{_BAR - 3}" '
            f'fill="{colour}"/>'
        )
        shown = f"{bar.value:,.{metric.digits}f}"
        parts.append(_text(_LABELS + width + 6, top + 11, shown))
        top += _BAR
    return parts, top + 2 * _GAP


def _text(x: float, y: float, words: str, *, anchor: str = "start", weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" '
        f'fill="#222222">{escape(words)}</text>'
    )
