"""The answers of several nodes -> one: rows of the same Service, answers that are the same."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kubeproxy.explain.words import Explanation, render
from kubeproxy.serve.status.wire import ServiceList, ServiceSummary
from kubeproxy.serve.status.words import plural
from kubeproxy.tools.kubectl.proxies import some
from kubeproxy.tools.layout import Line, Span, Style, line

Key = tuple[str, str]


class OnNode(msgspec.Struct, frozen=True, rename="camel"):
    """What a node answered, for programs; `error` says why there is no answer."""

    node: str
    answer: object = None
    error: str = ""


# --- services ---------------------------------------------------------------------------------


def merged(found: Mapping[str, ServiceList]) -> ServiceList:
    """The Services of several nodes: connections are added, and problems name their nodes."""
    rows: dict[Key, dict[str, ServiceSummary]] = {}
    for node, listed in found.items():
        for each in listed.services:
            rows.setdefault((each.namespace, each.service), {})[node] = each
    services = tuple(_row(on_nodes, found) for _, on_nodes in sorted(rows.items()))
    lists = list(found.values())
    return ServiceList(
        mode=", ".join(sorted({each.mode for each in lists})),
        total=max((each.total for each in lists), default=0),
        matching=len(services),
        counts_connections=any(each.counts_connections for each in lists),
        services=services,
    )


def _row(
    on_nodes: Mapping[str, ServiceSummary], found: Mapping[str, ServiceList]
) -> ServiceSummary:
    rows = list(on_nodes.values())
    counted = [each.connections for each in rows if each.connections is not None]
    rated = [each.per_second for each in rows if each.per_second is not None]
    problems: dict[str, list[str]] = {}
    for node, each in on_nodes.items():
        for problem in each.problems:
            problems.setdefault(problem, []).append(node)
    missing = [
        node
        for node, listed in found.items()
        if node not in on_nodes and len(listed.services) == listed.matching
    ]
    if missing:
        problems["not served"] = missing
    return replace(
        rows[0],
        endpoints=max(each.endpoints for each in rows),
        endpoints_used=max(each.endpoints_used for each in rows),
        connections=sum(counted) if counted else None,
        per_second=round(sum(rated), 3) if rated else None,
        problems=tuple(_placed(what, nodes, len(found)) for what, nodes in problems.items()),
    )


def _placed(problem: str, nodes: Sequence[str], of: int) -> str:
    return problem if len(nodes) == of else f"{problem} (on {some(nodes)})"


def busiest(found: ServiceList, limit: int) -> ServiceList:
    """The Services with the most connections in a second first; 0 is all."""
    order = sorted(found.services, key=lambda each: -(each.per_second or 0.0))
    return replace(found, services=tuple(order[: limit or None]))


# --- answers in words -------------------------------------------------------------------------


def grouped(texts: Mapping[str, str]) -> list[tuple[list[str], str]]:
    """The nodes of each text, those that most of them share first."""
    nodes: dict[str, list[str]] = {}
    for node, text in texts.items():
        nodes.setdefault(text, []).append(node)
    return sorted(((each, text) for text, each in nodes.items()), key=lambda each: -len(each[0]))


def heading(nodes: Sequence[str]) -> Line:
    """Whose answer follows."""
    which = (
        f"node {nodes[0]}" if len(nodes) == 1 else f"{plural(len(nodes), 'node')}: {some(nodes)}"
    )
    return line(Span(f"=== {which}", Style.BOLD))


def in_words(found: Iterable[Explanation]) -> str:
    """Explanations as text, without the name of the node: the same where nodes agree."""
    return "\n\n".join(
        render(each).replace(f"   on node {each.node}, ", "   ", 1) for each in found
    )
