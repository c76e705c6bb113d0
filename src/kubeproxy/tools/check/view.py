"""What a check found, as lines for people."""

from collections.abc import Iterable, Iterator
from typing import Final

from kubeproxy.dataplane.modes import MODES, all_modes
from kubeproxy.dataplane.preflight import NODE, PORTS, PROGRAMS, RIVALS, Finding, Grade
from kubeproxy.tools.check.judge import ModeVerdict, Report
from kubeproxy.tools.layout import GAP, Line, Span, Style, line, prose, wrapped

_MARK: Final = {
    Grade.OK: Span("ok", Style.GREEN),
    Grade.WARNING: Span("! ", Style.YELLOW),
    Grade.MISSING: Span("!!", Style.RED),
    Grade.UNKNOWN: Span("--", Style.CYAN),
    Grade.UNTRIED: Span("??", Style.YELLOW),
}
_HOW: Final = "Rules and devices are tried in scratch network namespaces: nothing here is changed."
_ARROW: Final = "-> "
_WIDTH: Final = 100
_WIDEST_NAME: Final = 30
_ROOM_BESIDE: Final = 36
_NARROWEST_TEXT: Final = 8


def screen(report: Report, width: int | None) -> Iterator[Line]:
    """Topics with their findings, and the verdicts last; piped, in lines that people can read."""
    width = width or _WIDTH
    yield from prose(
        f"{report.node}, Linux {report.kernel}, checked as {report.checked_as}", width
    )
    yield from prose(_HOW, width)
    for topic, heading in _headings().items():
        findings = [finding for finding in report.findings if finding.topic == topic]
        if not findings:
            continue
        yield line()
        yield line(Span(heading, Style.BOLD))
        column = _column(findings, width)
        for finding in findings:
            yield from _finding(finding, column, width)
    yield line()
    column = max((len(verdict.mode) for verdict in report.verdicts), default=0)
    for verdict in report.verdicts:
        yield from _verdict(verdict, column, width)


def _headings() -> dict[str, str]:
    """The topics in their order; programs stand before the modes that use them."""
    found = {NODE: "this node"}
    programs = [mode.name for mode in all_modes() if mode.uses_iptables]
    for name in MODES:
        if name in programs:
            found[PROGRAMS] = f"programs of {' and '.join(programs)} mode"
        found[name] = f"{name} mode"
    return {**found, RIVALS: "other proxies", PORTS: "ports"}


def _column(findings: Iterable[Finding], width: int) -> int:
    """How wide names are; 0 puts texts below them, where there is no room beside."""
    widest = min(max(len(finding.what) for finding in findings), _WIDEST_NAME)
    return widest if width - widest >= _ROOM_BESIDE else 0


def _finding(finding: Finding, column: int, width: int) -> Iterator[Line]:
    indent = len(GAP) * 3 + len(_MARK[finding.state].text) + column
    room = width - indent
    said = _wrapped(finding.detail, room)
    if finding.remedy:
        first, *more = _wrapped(finding.remedy, room - len(_ARROW))
        said += [f"{_ARROW}{first}", *(f"{' ' * len(_ARROW)}{text}" for text in more)]
    head = line(GAP, _MARK[finding.state], f"{GAP}{finding.what:{column}}")
    if said and len(finding.what) <= column:
        head = line(*head, f"{GAP}{said.pop(0)}")
    yield head
    yield from (line(" " * indent, text) for text in said)


def _verdict(verdict: ModeVerdict, column: int, width: int) -> Iterator[Line]:
    name = f"{verdict.mode}:"
    style = Style.GREEN if verdict.ready else Style.RED if verdict.known else Style.YELLOW
    gap = " " * (column + len(GAP))
    first, *more = _wrapped(verdict.conclusion, width - len(gap))
    yield line(Span(name, style), gap[len(name) :], first)
    yield from (line(gap, text) for text in more)


def _wrapped(text: str, room: int) -> list[str]:
    return wrapped(text, max(room, _NARROWEST_TEXT))
