"""Small charts as SVG. Each says in words, too, what it shows."""

from collections.abc import Iterator, Sequence
from math import log10
from typing import Final

from kubeproxy.serve.status.web.markup import Markup, element
from kubeproxy.serve.status.wire import Sync
from kubeproxy.serve.status.words import elapsed

_WIDTH: Final = 330
_LEFT: Final = 44
_HEIGHT: Final = 64
_FOOT: Final = 61
_SHORTEST: Final = 1e-4
_TOPS: Final = (0.01, 0.1, 1.0, 10.0, 100.0)
_BARS: Final = 100
_STEP: Final = (_WIDTH - _LEFT) / _BARS


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
        x = _WIDTH - _STEP * (len(shown) - number - 0.5)
        y = min(_y(sync.seconds, top), _FOOT - 2)
        bars.setdefault(_kind(sync), []).append(f"M{x:.1f} {_FOOT}V{y:.1f}")
    return element(
        "svg",
        *_grid(top),
        *(element("path", class_=kind, d="".join(each)) for kind, each in bars.items()),
        class_="syncs",
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        aria_label=_described(shown, label),
    )


def share(percent: float) -> Markup:
    """A bar that is as long as a share of a hundred."""
    return element(
        "svg",
        element("rect", class_="track", width="100%", height=6, rx=3),
        element("rect", class_="share", width=f"{percent:g}%", height=6, rx=3),
        class_="bar",
        height=6,
        aria_hidden="true",
    )


def fan(chosen: Sequence[float], left_out: int) -> Markup:
    """Lines from one point to rows of the same height: as thick as the shares, or dashed.

    It is stretched to the height of the rows beside it.
    """
    rows = len(chosen) + left_out
    middle = rows / 2
    curves = (
        element(
            "path",
            d=f"M0 {middle:g} C50 {middle:g} 50 {row + 0.5:g} 100 {row + 0.5:g}",
            class_="way" if row < len(chosen) else "no-way",
            stroke_width=_thickness(chosen[row]) if row < len(chosen) else None,
        )
        for row in range(rows)
    )
    return element(
        "svg",
        *curves,
        class_="fan",
        viewBox=f"0 0 100 {rows}",
        preserveAspectRatio="none",
        aria_hidden="true",
    )


def _thickness(percent: float) -> str:
    return f"{1.5 + percent / 25:.1f}"


def _y(seconds: float, top: float) -> float:
    """How far from the upper edge a duration stands."""
    level = log10(max(seconds, _SHORTEST) / _SHORTEST) / log10(top / _SHORTEST)
    return _FOOT - min(level, 1.0) * (_FOOT - 8)


def _grid(top: float) -> Iterator[Markup]:
    for seconds in (0.001, top):
        y = _y(seconds, top)
        at = f"{y:.1f}"
        yield element("line", class_="grid", x1=_LEFT, x2=_WIDTH, y1=at, y2=at)
        yield element("text", elapsed(seconds), x=_LEFT - 6, y=f"{y + 3:.1f}")


def _kind(sync: Sync) -> str:
    """The classes of a bar."""
    return f"sync {sync.outcome}{' full' if sync.full else ''}"


def sync_kind(sync: Sync) -> str:
    """Whether a sync compared everything."""
    return "full" if sync.full else "what changed"


def _described(shown: Sequence[Sync], label: str) -> str:
    if not shown:
        return f"{label}: no sync yet"
    times = sorted(sync.seconds for sync in shown)
    middle, longest = times[len(times) // 2], times[-1]
    return (
        f"{label}: {len(shown)} latest syncs, half of them within {elapsed(middle)}, the longest"
        f" {elapsed(longest)}"
    )


def legend() -> Markup:
    """What the colours of bars mean."""
    kinds = (
        ("sync ok", "what changed"),
        ("sync ok full", "full"),
        ("sync partly", "partly"),
        ("sync failed", "failed"),
    )
    return element(
        "p",
        *(
            element(
                "span",
                element(
                    "svg",
                    element("path", class_=kind, d="M5 10V0"),
                    class_="key",
                    viewBox="0 0 10 10",
                    aria_hidden="true",
                ),
                words,
            )
            for kind, words in kinds
        ),
        class_="legend",
    )
