"""The screen of `kube-proxy top`: state and size -> lines. Functions on values only."""

from collections.abc import Iterator, Sequence
from typing import Final

from kubeproxy.serve.status.wire import DaemonStatus, ServiceSummary
from kubeproxy.serve.status.words import clock, connections, count, plural, rate
from kubeproxy.tools.layout import Column, Line, Span, Style, cut, line, prose, table
from kubeproxy.tools.services.view import detail, full_name, usable
from kubeproxy.tools.top.state import News, TopState

BLOCKS: Final = "▁▂▃▄▅▆▇█"
_NAME: Final = Column("NAMESPACE/NAME", least=8, names=True)
_RATE: Final = Column("PER SECOND", right=True)
_REST: Final = (
    Column("CONNECTIONS", right=True, leaves=2),
    Column("ENDPOINTS", right=True, leaves=1),
)
_WORDS: Final = {
    "rate": "connections per second",
    "connections": "connections so far",
    "name": "name",
}


def spark(values: Sequence[float], width: int) -> str:
    """The latest values as bars, the highest of them full; what is nought has no bar."""
    shown = values[-width:] if width > 0 else ()
    highest = max(shown, default=0.0)
    bars = (_bar(value / highest) if highest else " " for value in shown)
    return "".join(bars).rjust(width)


def _bar(share: float) -> str:
    if share <= 0:
        return " "
    return BLOCKS[min(len(BLOCKS) - 1, int(share * len(BLOCKS)))]


def screen(state: TopState, columns: int) -> list[Line]:
    """Everything: as many lines as the window has rows, in so many columns."""
    if state.opened:
        return _opened(state, columns)
    rows = state.rows
    shown = state.services[state.offset : state.offset + state.page]
    lines = [_head(state), _doing(state), *_services(shown, state, columns)]
    lines += [line()] * (rows - 1 - len(lines))
    return [cut(each, columns) for each in (*lines[: rows - 1], _foot(state, len(shown)))]


def _opened(state: TopState, columns: int) -> list[Line]:
    """One Service alone, with its frontends and endpoints."""
    news = state.news
    found = news.detail if news else None
    lines: list[Line] = [line(Span(state.opened, Style.BOLD), "  is asked for")]
    if found is not None and f"{found.namespace}/{found.service}" == state.opened:
        lines = detail(found, columns)
    elif news is not None and news.missing:
        lines = prose(news.missing, columns, style=Style.RED)
    room = max(1, state.rows - 3)
    below = max(0, min(state.below, len(lines) - room))
    shown = [_head(state), _doing(state), *lines[below : below + room]]
    shown += [line()] * (state.rows - 1 - len(shown))
    keys = "Escape back  arrows scroll  space pause  q quit"
    where = f"   {below + 1}-{min(below + room, len(lines))} of {plural(len(lines), 'line')}"
    foot = line(Span(keys, Style.DIM), where)
    return [cut(each, columns) for each in (*shown[: state.rows - 1], foot)]


def _head(state: TopState) -> Line:
    title = Span("kube-proxy top", Style.BOLD)
    if state.news is None:
        return line(title)
    status = state.news.status
    now = rate(state.total[-1] if state.total else None)
    return line(
        title,
        f"  {status.node}, {status.mode} mode  ",
        Span(f"{now} connections/s ", Style.BOLD),
        Span(spark(state.total, len(state.total)), Style.CYAN),
    )


def _doing(state: TopState) -> Line:
    """What the table shows, and what keeps it from being up to date."""
    if state.silence:
        return line(Span(f"the proxy does not answer: {state.silence}", Style.RED))
    search = f", with {state.search!r}" if state.search and not state.typing else ""
    return line(
        f"by {_WORDS[state.sort]}{search}  ",
        *([Span("PAUSED", Style.YELLOW), "  "] if state.paused else ()),
        *(_syncs(state.news.status) if state.news else ()),
    )


def _syncs(status: DaemonStatus) -> Iterator[str | Span]:
    counts = (f"{count(each.syncs)} {each.ip_family}" for each in status.families)
    yield f"syncs: {', '.join(counts)}"
    failures = sum(each.failures for each in status.families)
    if failures:
        yield Span(f", {count(failures)} failed", Style.RED)
    yield f"  {clock(status.now)} UTC"


def _services(shown: Sequence[ServiceSummary], state: TopState, columns: int) -> list[Line]:
    width = _chart_width(shown, state, columns)
    heads = (_NAME, _RATE, Column("LAST MINUTE".ljust(width), leaves=3), *_REST)
    lines = table(heads, (_row(each, state, width) for each in shown), columns)
    at = 1 + state.cursor - state.offset
    return [_marked(each) if number == at else each for number, each in enumerate(lines)]


def _marked(row: Line) -> Line:
    """The row that Enter opens: its name is reversed."""
    name, *others = row
    return line(Span(name.text, Style.REVERSE), *others)


def _chart_width(shown: Sequence[ServiceSummary], state: TopState, columns: int) -> int:
    """What the other columns leave, up to a minute."""
    name = max((len(full_name(each)) for each in shown), default=0)
    others = max(name, len(_NAME.title)) + sum(len(each.title) for each in (_RATE, *_REST)) + 8
    return max(len("LAST MINUTE"), min(state.kept, columns - others))


def _row(each: ServiceSummary, state: TopState, width: int) -> Line:
    name = full_name(each)
    return line(
        name,
        Span(rate(each.per_second), Style.BOLD if each.per_second else Style.PLAIN),
        Span(spark(state.history.get(name, ()), width), Style.CYAN),
        connections(each.connections),
        usable(each),
    )


def _foot(state: TopState, shown: int) -> Line:
    if state.typing:
        return line("search: ", Span(f"{state.search} ", Style.REVERSE))
    keys = "q quit  s sort  / search  Enter details  space pause"
    if state.news is None:
        return line(Span(keys, Style.DIM))
    found = state.news.found
    first = state.offset + 1
    where = f"   {first}-{state.offset + shown} of {plural(found.matching, 'service')}"
    return line(Span(keys, Style.DIM), where if shown else "   no service")


def printed(news: News, width: int | None) -> list[Line]:
    """A table that is printed once, into a pipe or on request."""
    heads = (_NAME, _RATE, *_REST)
    rows = (
        line(full_name(each), rate(each.per_second), connections(each.connections), usable(each))
        for each in news.found.services
    )
    return table(heads, rows, width)
