"""The explain form, and the answer: each packet's way as a drawing, and all of it as text.

The words are those of `explain.words`; nothing is decided here.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from kubeproxy.explain.words import Candidate, Explanation, NotChosen, render
from kubeproxy.serve.status.web.markup import NOTHING, Content, Markup, facts, html
from kubeproxy.serve.status.web.servicetable import service_link
from kubeproxy.serve.status.words import count

_ROWS: Final = 12
"""Endpoints that are drawn: with more, the steps before them would be out of sight."""
_LEFT_OUT: Final = 4
"""Of these, so many that are not chosen: the reasons for that are what people look for."""
_LEVELS: Final = {"forward": "good", "local proxy": "good", "reject": "bad", "drop": "bad"}
_WAY: Final = '<path d="M0 {0} C50 {0} 50 {1} 100 {1}" class="way" stroke-width="{2}"></path>'
_NO_WAY: Final = '<path d="M0 {0} C50 {0} 50 {1} 100 {1}" class="no-way"></path>'
_FIELD: Final = ' required autocomplete="off" autocapitalize="off" spellcheck="false">'
_FORM: Final = (
    '<form id="ask" action="/status#explain"><label for="from">From</label>'
    '<input id="from" name="from" value="{source}" placeholder="outside, host or an address"'
    f' list="sources"{_FIELD}<datalist id="sources"><option value="outside"></option>'
    '<option value="host"></option></datalist><label for="to">To</label>'
    '<input id="to" name="to" value="{destination}" placeholder="service or address:port"'
    f"{_FIELD}<button>Explain</button></form>"
)


class Explained(msgspec.Struct, frozen=True):
    """From where to where, as it was typed; and the answers, or why there are none."""

    source: str = ""
    destination: str = ""
    answers: Sequence[Explanation] = ()
    refusal: str = ""


def explain(explained: Explained) -> Iterator[Markup]:
    """The form, and the answer if something was asked."""
    filled = form(explained.source, explained.destination)
    yield html('<section id="explain"><h2>Explain a packet</h2>{}', filled)
    yield from answer(explained)
    yield html("</section>")


def form(source: str, destination: str) -> Markup:
    """Where a packet comes from and goes to."""
    return html(_FORM, source=source or "outside", destination=destination)


def answer(explained: Explained) -> Iterator[Markup]:
    """The answer alone, which the script loads."""
    yield html('<div id="answer" data-refresh="answer" aria-live="polite">')
    if explained.refusal:
        yield html('<p class="box warn">{}</p>', explained.refusal)
    yield from map(drawing, explained.answers)
    if explained.answers:
        yield html(
            '<details id="as-text"><summary>As text, as kube-proxy explain prints it</summary>'
            '<pre tabindex="0">{}</pre></details>',
            "\n\n".join(map(render, explained.answers)),
        )
    yield html("</div>")


# --- the way of a packet ----------------------------------------------------------------------


def drawing(packet: Explanation) -> Markup:
    """Client, frontend, verdict, endpoints, and the way back: a line, if there are replies."""
    notes = (("Note", note) for note in packet.notes)
    reasons = (("Source", packet.source_address), ("Affinity", packet.affinity))
    about = (*reasons, ("Healing", packet.healing), *notes)
    return html(
        '<figure class="packet"><figcaption><b>{source}</b> ({source_class})'
        " \N{RIGHTWARDS ARROW} <b>{destination}</b></figcaption>"
        '<ol class="path {answered}">{steps}</ol>'
        '<p class="back {answered}"><span class="kind">Replies</span>{replies}</p>'
        "{facts}</figure>",
        source=packet.source,
        source_class=packet.source_class,
        destination=packet.destination,
        answered="answered" if packet.endpoints else "unanswered",
        steps=_steps(packet),
        replies=packet.replies,
        facts=facts((label, text) for label, text in about if text),
    )


def _steps(packet: Explanation) -> Iterator[Markup]:
    yield _step("Client", packet.source, packet.client)
    matched = packet.matched
    if matched is None:
        yield _step("Destination", packet.destination, "no frontend of a Service")
    else:
        port = f", port {matched.port_name}" if matched.port_name else ""
        service = service_link(matched.namespace, matched.service)
        words = (f"{matched.frontend} of Service ", service, port)
        yield _step("Frontend", matched.place, words)
    level = _LEVELS.get(packet.verdict, "plain")
    yield _step("Verdict", packet.verdict, packet.summary, level)
    if packet.endpoints or packet.not_chosen:
        yield _endpoints(packet)


def _step(kind: str, title: str, words: Content, level: str = "plain") -> Markup:
    return html(
        '<li><div class="step {}"><span class="kind">{}</span><b>{}</b><p>{}</p></div></li>',
        level,
        kind,
        title,
        words,
    )


def _endpoints(packet: Explanation) -> Markup:
    left_out = packet.not_chosen[: max(_LEFT_OUT, _ROWS - len(packet.endpoints))]
    chosen = packet.endpoints[: _ROWS - len(left_out)]
    hidden = (
        (len(packet.endpoints) - len(chosen), ""),
        (len(packet.not_chosen) - len(left_out), " that are not chosen"),
    )
    more = " and ".join(f"{count(number)} more{which}" for number, which in hidden if number)
    return html(
        '<li class="last">{}<ul class="endpoints">{}{}</ul>{}</li>',
        _fan([each.percent for each in chosen], len(left_out)),
        map(_chosen, chosen),
        map(_not_chosen, left_out),
        html("<p>{}: see the text below</p>", more) if more else NOTHING,
    )


def _fan(chosen: Sequence[float], left_out: int) -> Markup:
    """Lines from one point to rows of the same height: as thick as the shares, or dashed.

    It is stretched to the height of the rows beside it.
    """
    rows = len(chosen) + left_out
    middle, ends = f"{rows / 2:g}", [f"{row + 0.5:g}" for row in range(rows)]
    widths = [f"{1.5 + percent / 25:.1f}" for percent in chosen]
    return html(
        '<svg class="fan" viewBox="0 0 100 {}" preserveAspectRatio="none" aria-hidden="true">'
        "{}{}</svg>",
        str(rows),
        (html(_WAY, middle, *each) for each in zip(ends, widths, strict=False)),
        (html(_NO_WAY, middle, end) for end in ends[len(chosen) :]),
    )


def _chosen(candidate: Candidate) -> Markup:
    """An endpoint, and a bar that is as long as its share of a hundred."""
    source = "source rewritten" if candidate.source_rewritten else "source kept"
    words = (candidate.place, *["hairpin"] * candidate.hairpin, source)
    return html(
        '<li><div><b>{endpoint}</b><span class="percent">{share} %</span></div>'
        '<svg class="bar" height="6" aria-hidden="true">'
        '<rect class="track" width="100%" height="6" rx="3"></rect>'
        '<rect class="share" width="{share}%" height="6" rx="3"></rect></svg><p>{words}</p></li>',
        endpoint=candidate.endpoint,
        share=f"{candidate.percent:g}",
        words=", ".join(words),
    )


def _not_chosen(endpoint: NotChosen) -> Markup:
    return html(
        '<li class="not-chosen"><div><b>{}</b><span>not chosen</span></div><p>{}</p></li>',
        endpoint.endpoint,
        endpoint.reason,
    )
