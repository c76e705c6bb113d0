"""The explain form, and the answer to what was asked."""

from collections.abc import Iterator, Sequence

import msgspec

from kubeproxy.explain.words import Explanation, render
from kubeproxy.serve.status.web.markup import NOTHING, Markup, element, together, trusted
from kubeproxy.serve.status.web.pathdrawing import drawing


class Asking(msgspec.Struct, frozen=True):
    """From where to where, as it was typed; and the answers, or why there are none."""

    source: str = ""
    destination: str = ""
    answers: Sequence[Explanation] = ()
    refusal: str = ""


def explain(asking: Asking) -> Iterator[Markup]:
    """The form, and the answer if something was asked."""
    yield together(
        (
            trusted('<section id="explain"><h2>Explain a packet</h2>'),
            form(asking.source, asking.destination),
        )
    )
    yield from answer(asking)
    yield trusted("</section>")


def form(source: str, destination: str) -> Markup:
    """Where a packet comes from and goes to."""
    return element(
        "form",
        element("label", "From", for_="from"),
        _field("from", source or "outside", "outside, host or an address", list_="sources"),
        element(
            "datalist",
            element("option", value="outside"),
            element("option", value="host"),
            id="sources",
        ),
        element("label", "To", for_="to"),
        _field("to", destination, "service or address:port"),
        element("button", "Explain"),
        id="ask",
        action="/status#explain",
    )


def _field(name: str, value: str, hint: str, list_: str | None = None) -> Markup:
    return element(
        "input",
        id=name,
        name=name,
        value=value,
        placeholder=hint,
        list_=list_,
        required=True,
        autocomplete="off",
        autocapitalize="off",
        spellcheck="false",
    )


def answer(asking: Asking) -> Iterator[Markup]:
    """The answer alone, which the script loads."""
    yield trusted('<div id="answer" data-refresh="answer" aria-live="polite">')
    if asking.refusal:
        yield element("p", asking.refusal, class_="box warn")
    for explanation in asking.answers:
        yield drawing(explanation)
    yield _as_text(asking.answers)
    yield trusted("</div>")


def _as_text(answers: Sequence[Explanation]) -> Markup:
    """The same as the command prints."""
    if not answers:
        return NOTHING
    return element(
        "details",
        element("summary", "As text, as kube-proxy explain prints it"),
        element("pre", "\n\n".join(map(render, answers)), tabindex="0"),
        id="as-text",
    )
