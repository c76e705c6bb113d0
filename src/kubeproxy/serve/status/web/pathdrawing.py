"""An explanation as a drawing: client, frontend, verdict, endpoints, and the way back.

The words are those of `explain.words`; nothing is decided here.
"""

from collections.abc import Iterator
from typing import Final

from kubeproxy.base.inet import join
from kubeproxy.explain.words import Candidate, Explanation, Matched, NotChosen
from kubeproxy.serve.status.web.charts import fan, share
from kubeproxy.serve.status.web.markup import NOTHING, Markup, element, together
from kubeproxy.serve.status.web.servicetable import service_link
from kubeproxy.serve.status.words import count

_ROWS: Final = 12
"""Endpoints that are drawn: with more, the steps before them would be out of sight."""
_LEFT_OUT: Final = 4
"""Of these, so many that are not chosen: the reasons for that are what people look for."""
_LEVELS: Final = {
    "forward": "good",
    "local proxy": "good",
    "reject": "bad",
    "drop": "bad",
    "pass": "plain",
}


def drawing(explanation: Explanation) -> Markup:
    """One packet's way."""
    return element(
        "figure",
        element(
            "figcaption",
            element("b", explanation.source),
            f" ({explanation.source_class}) \N{RIGHTWARDS ARROW} ",
            element("b", explanation.destination),
        ),
        element("ol", *_steps(explanation), class_=f"path {_answered(explanation)}"),
        _way_back(explanation),
        element("dl", *_facts(explanation)),
        class_="packet",
    )


def _steps(explanation: Explanation) -> Iterator[Markup]:
    yield _step("Client", explanation.source, explanation.client)
    yield _frontend(explanation)
    yield _step(
        "Verdict",
        explanation.verdict,
        explanation.summary,
        level=_LEVELS.get(explanation.verdict, "plain"),
    )
    if explanation.endpoints or explanation.not_chosen:
        yield _endpoints(explanation)


def _step(kind: str, title: str, *words: Markup | str, level: str = "plain") -> Markup:
    return element(
        "li",
        element(
            "div",
            element("span", kind, class_="kind"),
            element("b", title),
            element("p", *words),
            class_=f"step {level}",
        ),
    )


def _frontend(explanation: Explanation) -> Markup:
    matched = explanation.matched
    if matched is None:
        return _step("Destination", explanation.destination, "no frontend of a Service")
    port = f", port {matched.port_name}" if matched.port_name else ""
    service = service_link(matched.namespace, matched.service)
    return _step("Frontend", _place(matched), f"{matched.frontend} of Service ", service, port)


def _place(matched: Matched) -> str:
    where = join(matched.address, matched.port) if matched.address else str(matched.port)
    return f"{where}/{matched.protocol}"


def _endpoints(explanation: Explanation) -> Markup:
    left_out = explanation.not_chosen[: max(_LEFT_OUT, _ROWS - len(explanation.endpoints))]
    chosen = explanation.endpoints[: _ROWS - len(left_out)]
    more = _more(
        len(explanation.endpoints) - len(chosen), len(explanation.not_chosen) - len(left_out)
    )
    return element(
        "li",
        fan([each.percent for each in chosen], len(left_out)),
        element("ul", *map(_chosen, chosen), *map(_not_chosen, left_out), class_="endpoints"),
        element("p", f"{more}: see the text below") if more else NOTHING,
        class_="last",
    )


def _more(chosen: int, left_out: int) -> str:
    """How many endpoints are not drawn; "" when all are."""
    kinds = ((chosen, ""), (left_out, " that are not chosen"))
    return " and ".join(f"{count(number)} more{which}" for number, which in kinds if number)


def _chosen(candidate: Candidate) -> Markup:
    if candidate.on_this_node:
        place = "on this node"
    elif candidate.node:
        place = f"on node {candidate.node}"
    else:
        place = "on a node that its slice does not name"
    source = "source rewritten" if candidate.source_rewritten else "source kept"
    words = (place, "hairpin", source) if candidate.hairpin else (place, source)
    return element(
        "li",
        element(
            "div",
            element("b", candidate.endpoint),
            element("span", f"{candidate.percent:g} %", class_="percent"),
        ),
        share(candidate.percent),
        element("p", ", ".join(words)),
    )


def _not_chosen(endpoint: NotChosen) -> Markup:
    return element(
        "li",
        element("div", element("b", endpoint.endpoint), element("span", "not chosen")),
        element("p", endpoint.reason),
        class_="not-chosen",
    )


def _way_back(explanation: Explanation) -> Markup:
    """The replies, as a line that leads back to the client if there are any."""
    return element(
        "p",
        element("span", "Replies", class_="kind"),
        explanation.replies,
        class_=f"back {_answered(explanation)}",
    )


def _answered(explanation: Explanation) -> str:
    return "answered" if explanation.endpoints else "unanswered"


def _facts(explanation: Explanation) -> Iterator[Markup]:
    facts = (
        ("Source", explanation.source_address),
        ("Affinity", explanation.affinity),
        *(("Note", note) for note in explanation.notes),
    )
    for label, text in facts:
        if text:
            yield together((element("dt", label), element("dd", text)))
