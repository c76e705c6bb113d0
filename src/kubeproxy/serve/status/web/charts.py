"""Small charts as SVG. Each says in words, too, what it shows."""

from collections.abc import Iterator, Sequence
from math import log10
from typing import Final

from kubeproxy.serve.status.web.markup import Markup, html
from kubeproxy.serve.status.wire import Sync
from kubeproxy.serve.status.words import elapsed, rate

_WIDTH: Final = 330
_LEFT: Final = 44
_HEIGHT: Final = 64
_FOOT: Final = 61
_SHORTEST: Final = 1e-4
_TOPS: Final = (0.01, 0.1, 1.0, 10.0, 100.0)
_BARS: Final = 100
_STEP: Final = (_WIDTH - _LEFT) / _BARS
_SYNCS: Final = (
    f'<svg class="syncs" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"'
    ' aria-label="{}">{}{}</svg>'
)
_GRID: Final = (
    f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH}" y1="{{0}}" y2="{{0}}"></line>'
    f'<text x="{_LEFT - 6}" y="{{1}}">{{2}}</text>'
)
_KEY: Final = (
    '<span><svg class="key" viewBox="0 0 10 10" aria-hidden="true">'
    '<path class="{}" d="M5 10V0"></path></svg>{}</span>'
)
LEGEND: Final = html(
    '<p class="legend">{}{}{}{}</p>',
    html(_KEY, "sync ok", "what changed"),
    html(_KEY, "sync ok full", "full"),
    html(_KEY, "sync partly", "partly"),
    html(_KEY, "sync failed", "failed"),
)
"""What the colours of bars mean."""


def sync_chart(history: Sequence[Sync], label: str) -> Markup:
    """A bar for each sync, the latest at the right; heights grow with the logarithm.

    Most syncs take a millisecond and a first one may take a second: both are to be seen. Bars of
    a kind are one path, which costs less than a hundred elements.
    """
    shown = history[-_BARS:]
    longest = max((sync.seconds for sync in shown), default=0.0)
    top = next((top for top in _TOPS if longest <= top), _TOPS[-1])
    bars: dict[str, list[str]] = {}
    for number, sync in enumerate(shown):
        kind = f"sync {sync.outcome}{' full' if sync.full else ''}"
        x = _WIDTH - _STEP * (len(shown) - number - 0.5)
        y = min(_y(sync.seconds, top), _FOOT - 2)
        bars.setdefault(kind, []).append(f"M{x:.1f} {_FOOT}V{y:.1f}")
    return html(
        _SYNCS,
        _described(shown, label),
        _grid(top),
        (html('<path class="{}" d="{}"></path>', kind, each) for kind, each in bars.items()),
    )


def _y(seconds: float, top: float) -> float:
    """How far from the upper edge a duration stands."""
    level = log10(max(seconds, _SHORTEST) / _SHORTEST) / log10(top / _SHORTEST)
    return _FOOT - min(level, 1.0) * (_FOOT - 8)


def _grid(top: float) -> Iterator[Markup]:
    for seconds in (0.001, top):
        y = _y(seconds, top)
        yield html(_GRID, f"{y:.1f}", f"{y + 3:.1f}", elapsed(seconds))


def _described(shown: Sequence[Sync], label: str) -> str:
    if not shown:
        return f"{label}: no sync yet"
    times = sorted(sync.seconds for sync in shown)
    middle, longest = times[len(times) // 2], times[-1]
    return (
        f"{label}: {len(shown)} latest syncs, half of them within {elapsed(middle)}, the longest"
        f" {elapsed(longest)}"
    )


def traffic(service: str, per_second: float | None, words: str) -> Markup:
    """New connections of a Service, or of all (`*`): the figure of now, and the script's chart."""
    return html(
        '<article class="card"><h2>Connections</h2>'
        '<p><b class="big" data-rate="{service}">{rate}</b> new connections per second</p>'
        '<svg class="chart" viewBox="0 0 330 90" data-chart="{service}" role="img"></svg>'
        "<noscript><p>Rates are counted between two requests: reload.</p></noscript>"
        '<p class="faint">{words}</p></article>',
        service=service,
        rate=rate(per_second),
        words=words,
    )
