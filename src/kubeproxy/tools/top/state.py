"""What `kube-proxy top` shows and how keys change it. Functions on values only."""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from kubeproxy.serve.status.wire import (
    DaemonStatus,
    ServiceDetail,
    ServiceList,
    ServiceRates,
    ServiceSummary,
)

MINUTE: Final = 60.0
MOST: Final = 500
"""Services that are asked for: more are not the busiest."""
SORTS: Final = ("rate", "connections", "name")
_AROUND: Final = 5
"""Rows that are no services: two above the table, its header, an empty one, the keys."""


class News(msgspec.Struct, frozen=True):
    """What the daemon said when it was last asked; rates only when it was time for them.

    `detail` is of the Service that is opened, and `missing` why there is none.
    """

    status: DaemonStatus
    found: ServiceList
    rates: ServiceRates | None = None
    detail: ServiceDetail | None = None
    missing: str = ""


class TopState(msgspec.Struct, frozen=True):
    """Everything that a screen depends on.

    `history` has the rates of the last minute by `NAMESPACE/NAME`, the latest last, and `total`
    their sums; `kept` is how many samples a minute has. `rows` are those of the window. `typing`
    says that keys are words of the search, and `silence` why the daemon does not answer. `cursor`
    is the row that Enter opens, and `opened` the Service that is shown alone, from its line
    `below` on.
    """

    kept: int
    rows: int = 24
    news: News | None = None
    history: Mapping[str, tuple[float, ...]] = {}
    total: tuple[float, ...] = ()
    sort: str = SORTS[0]
    search: str = ""
    typing: bool = False
    paused: bool = False
    offset: int = 0
    cursor: int = 0
    opened: str = ""
    below: int = 0
    silence: str = ""
    done: bool = False

    @property
    def services(self) -> tuple[ServiceSummary, ...]:
        """All that there are to scroll through."""
        return self.news.found.services if self.news else ()

    @property
    def page(self) -> int:
        """How many services the window has room for."""
        return max(1, self.rows - _AROUND)


def beginning(interval: float) -> TopState:
    """Nothing is known yet."""
    return TopState(kept=max(1, round(MINUTE / interval)))


def question(state: TopState) -> dict[str, str]:
    """What to ask for next, as the query of `/status/services`."""
    return {"q": state.search, "sort": state.sort, "limit": str(MOST)}


# --- news -------------------------------------------------------------------------------------


def updated(state: TopState, news: News) -> TopState:
    """The daemon has answered."""
    known = _scrolled(replace(state, news=news, silence=""), 0)
    if news.rates is None or not news.rates.seconds:
        return known
    now = news.rates.services
    history = {
        name: (*state.history.get(name, ()), now.get(name, 0.0))[-state.kept :]
        for name in {**state.history, **now}
    }
    return replace(
        known,
        history={name: rates for name, rates in history.items() if any(rates)},
        total=(*state.total, sum(now.values()))[-state.kept :],
    )


def unanswered(state: TopState, why: str) -> TopState:
    """The daemon does not answer: what was shown stays."""
    return replace(state, silence=why)


def sized(state: TopState, rows: int) -> TopState:
    """The window has so many rows."""
    return _scrolled(replace(state, rows=rows), 0)


# --- keys -------------------------------------------------------------------------------------

_STEPS: Final = {"j": 1, "down": 1, "k": -1, "up": -1, "home": -MOST, "end": MOST}
_PAGES: Final = {"page-down": 1, "page-up": -1}


def pressed(state: TopState, key: str) -> TopState:
    """A key was pressed."""
    if state.typing:
        return _typed(state, key)
    if state.opened:
        return _in_detail(state, key)
    if key in _STEPS:
        return _scrolled(state, _STEPS[key])
    if key in _PAGES:
        return _scrolled(state, _PAGES[key] * state.page, page=True)
    change = _CHANGES.get(key)
    return change(state) if change else state


def _sorted_otherwise(state: TopState) -> TopState:
    following = SORTS[(SORTS.index(state.sort) + 1) % len(SORTS)]
    return replace(state, sort=following, offset=0, cursor=0)


def _opened(state: TopState) -> TopState:
    """The Service of the row under the cursor, if there is one, is shown alone."""
    if not state.services:
        return state
    chosen = state.services[state.cursor]
    return replace(state, opened=f"{chosen.namespace}/{chosen.service}", below=0)


def _in_detail(state: TopState, key: str) -> TopState:
    match key:
        case "q":
            return replace(state, done=True)
        case "escape" | "enter" | "backspace":
            return replace(state, opened="")
        case " ":
            return replace(state, paused=not state.paused)
        case _ if key in _STEPS or key in _PAGES:
            step = _STEPS.get(key) or _PAGES[key] * state.page
            return replace(state, below=max(0, state.below + step))
        case _:
            return state


_CHANGES: Final[Mapping[str, Callable[[TopState], TopState]]] = {
    "q": lambda state: replace(state, done=True),
    "s": _sorted_otherwise,
    "/": lambda state: replace(state, typing=True),
    " ": lambda state: replace(state, paused=not state.paused),
    "enter": _opened,
    "escape": lambda state: replace(state, search="", offset=0, cursor=0),
}


def _typed(state: TopState, key: str) -> TopState:
    match key:
        case "enter":
            return replace(state, typing=False)
        case "escape":
            return replace(state, typing=False, search="", offset=0, cursor=0)
        case "backspace":
            return replace(state, search=state.search[:-1], offset=0, cursor=0)
        case _ if len(key) == 1 and key.isprintable():
            return replace(state, search=state.search + key, offset=0, cursor=0)
        case _:
            return state


def _scrolled(state: TopState, steps: int, *, page: bool = False) -> TopState:
    """The cursor further down, or up, and in sight; the last page is full if there are enough."""
    last = len(state.services) - 1
    cursor = max(0, min(state.cursor + steps, last))
    offset = state.offset + steps * page
    offset = min(max(offset, cursor - state.page + 1), cursor, last + 1 - state.page)
    return replace(state, cursor=cursor, offset=max(0, offset))
