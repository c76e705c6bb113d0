"""What is known of each node -> a table, the worst first, and what is wrong below it."""

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Final

import msgspec

from kubeproxy.serve.status.troubles import troubles
from kubeproxy.serve.status.wire import ConntrackState, DaemonStatus
from kubeproxy.serve.status.words import Trouble, count, plural, since, span
from kubeproxy.tools.kubectl.proxies import Kind, Proxy, some
from kubeproxy.tools.layout import Column, Line, Span, Style, left, line, prose, right, table

_CASES: Final = 5
_COLUMNS: Final = (
    Column("NODE", least=20),
    *left("HEALTH", "PROXY"),
    Column("VERSION", least=8),
    *right("LAST SYNC", "CONNTRACK", "SERVICES", "FAILED"),
)


class Grade(IntEnum):
    """How a node is, the worst first."""

    DOWN = 0
    UNWELL = 1
    SILENT = 2
    UNKNOWN = 3
    WARNED = 4
    WELL = 5


_WORDS: Final = {
    Grade.DOWN: Span("DOWN", Style.RED),
    Grade.UNWELL: Span("NOT well", Style.RED),
    Grade.SILENT: Span("NO ANSWER", Style.RED),
    Grade.UNKNOWN: Span("not known", Style.YELLOW),
    Grade.WARNED: Span("well, see below", Style.YELLOW),
    Grade.WELL: Span("well", Style.GREEN),
}


class Wrong(msgspec.Struct, frozen=True, rename="camel"):
    """Something that is wrong on a node."""

    what: str
    advice: str = ""
    cases: tuple[tuple[str, str], ...] = ()
    severe: bool = True


class NodeReport(msgspec.Struct, frozen=True, rename="camel"):
    """A node and its proxy. What is not known is None or ""."""

    node: str
    grade: str
    proxy: str
    pod: str = ""
    image: str = ""
    mode: str = ""
    version: str = ""
    last_sync_seconds: float | None = None
    conntrack_percent: float | None = None
    services: int | None = None
    failed: int | None = None
    wrong: tuple[Wrong, ...] = ()

    @property
    def severity(self) -> Grade:
        """How it is, as a number: the least is the worst."""
        return Grade[self.grade]


class ClusterReport(msgspec.Struct, frozen=True):
    """All nodes that were looked at, the worst first."""

    nodes: tuple[NodeReport, ...]

    @property
    def unwell(self) -> list[NodeReport]:
        """Those where something keeps traffic from flowing, or may."""
        return [each for each in self.nodes if each.severity <= Grade.SILENT]


# --- one node ---------------------------------------------------------------------------------


def without_answer(proxy: Proxy, grade: Grade, why: str) -> NodeReport:
    """A node whose proxy could not be asked, and why."""
    return NodeReport(
        node=proxy.node,
        grade=grade.name,
        proxy=proxy.kind.value,
        pod=proxy.pod,
        image=proxy.image,
        version=proxy.tag,
        wrong=(Wrong(why, severe=grade <= Grade.SILENT),),
    )


def answered(proxy: Proxy, data: bytes) -> NodeReport:
    """A node whose proxy is ours, from what its `status -o json` printed."""
    try:
        status = msgspec.json.decode(data, type=DaemonStatus)
    except msgspec.DecodeError as error:
        return without_answer(proxy, Grade.UNKNOWN, f"it is of another version: {error}")
    wrong = tuple(_wrong(each, status.node) for each in troubles(status))
    grade = Grade.WELL
    if wrong:
        grade = Grade.UNWELL if any(each.severe for each in wrong) else Grade.WARNED
    refused = {each.service_port for family in status.families for each in family.not_programmed}
    ended = [family.last_sync.ended for family in status.families if family.last_sync]
    return NodeReport(
        node=proxy.node,
        grade=grade.name,
        proxy=proxy.kind.value,
        pod=proxy.pod,
        image=proxy.image,
        mode=status.mode,
        version=status.version,
        last_sync_seconds=since(max(ended), status.now) if ended else None,
        conntrack_percent=_percent(status.conntrack),
        services=max((family.services for family in status.families), default=0),
        failed=len(refused),
        wrong=wrong,
    )


def _wrong(trouble: Trouble, node: str) -> Wrong:
    """The trouble in the same words on every node, so that it is shown once."""
    what = trouble.what.replace(f"Node {node} ", "The Node ")
    return Wrong(what, trouble.advice, trouble.cases, trouble.severe)


def _percent(tracked: ConntrackState | None) -> float | None:
    """How full the table of tracked connections is; None where that is not known."""
    if tracked is None or not tracked.limit:
        return None
    return round(100 * tracked.entries / tracked.limit, 1)


UNREACHED: Final = "trying to reach service"
"""What the API server says when it did not reach a node, in contrast to an answer of the node."""


def answered_by_go(proxy: Proxy, refusal: str, mode: str) -> NodeReport:
    """A node with a Go kube-proxy, from its /healthz and /proxyMode through the API server.

    `refusal` is why /healthz was not had; "" when it was.
    """
    grade, what = Grade.WELL, ""
    if refusal:
        unwell = "ServiceUnavailable" in refusal and UNREACHED not in refusal
        grade = Grade.UNWELL if unwell else Grade.UNKNOWN
        what = "its /healthz says that it is not well" if unwell else f"not reached: {refusal}"
    report = without_answer(proxy, grade, what)
    return msgspec.structs.replace(report, mode=mode, wrong=report.wrong if what else ())


# --- all of them ------------------------------------------------------------------------------


def ranked(reports: Iterable[NodeReport]) -> ClusterReport:
    """The worst first."""
    return ClusterReport(tuple(sorted(reports, key=lambda each: (each.severity, each.node))))


def screen(found: ClusterReport, width: int | None) -> Iterator[Line]:
    """A verdict, a row for each node, and each thing that is wrong once, with its nodes."""
    nodes, unwell = found.nodes, found.unwell
    where = f" on {plural(len(nodes), 'node')}"
    if unwell:
        where = f" on {count(len(unwell))} of {plural(len(nodes), 'node')}"
        yield line(Span("kube-proxy is NOT well", Style.RED), where)
    else:
        yield line(Span("kube-proxy is well", Style.GREEN), where)
    yield line()
    yield from table(_COLUMNS, map(_row, nodes), width)
    for wrong, names in _by_trouble(nodes):
        yield line()
        yield from _trouble(wrong, names, width)


def _row(each: NodeReport) -> Line:
    proxy = each.mode or "-"
    if each.proxy == Kind.GO.value:
        proxy = f"Go, {each.mode}" if each.mode else "Go"
    elif each.proxy == Kind.NONE.value:
        proxy = "none"
    failed = Span(_number(each.failed), Style.RED if each.failed else Style.PLAIN)
    sync, full = each.last_sync_seconds, each.conntrack_percent
    return line(
        each.node,
        _WORDS[each.severity],
        proxy,
        each.version or "-",
        "-" if sync is None else f"{span(sync)} ago",
        "-" if full is None else f"{full:g} %",
        _number(each.services),
        failed,
    )


def _number(number: int | None) -> str:
    return "-" if number is None else count(number)


def _by_trouble(nodes: Sequence[NodeReport]) -> Iterator[tuple[Wrong, list[str]]]:
    """Each thing that is wrong, as the first node has it, and all nodes that have it."""
    first: dict[tuple[str, str], Wrong] = {}
    where: dict[tuple[str, str], list[str]] = {}
    for node in nodes:
        for wrong in node.wrong:
            key = (wrong.what, wrong.advice)
            first.setdefault(key, wrong)
            where.setdefault(key, []).append(node.node)
    order = sorted(first, key=lambda key: not first[key].severe)
    return ((first[key], where[key]) for key in order)


def _trouble(wrong: Wrong, nodes: Sequence[str], width: int | None) -> Iterator[Line]:
    style = Style.RED if wrong.severe else Style.YELLOW
    yield from prose(wrong.what, width, style=style)
    which = "node" if len(nodes) == 1 else f"{plural(len(nodes), 'node')}:"
    yield from prose(f"on {which} {some(nodes)}", width, "  ")
    for name, reason in wrong.cases[:_CASES]:
        yield from prose(f"{name}: {reason}", width, "    ")
    if len(wrong.cases) > _CASES:
        yield line(f"    and {len(wrong.cases) - _CASES} more (status --node {nodes[0]} -o json)")
    if wrong.advice:
        yield from prose(wrong.advice, width, "  ", Style.DIM)
