"""The explain form keeps what was asked; the drawing and the text say what the command says."""

import msgspec
import pytest

from kubeproxy.explain.words import Candidate, Explanation, NotChosen, render
from kubeproxy.serve.status.web.explain import Explained, drawing, explain
from serve.status.web.parsed import Parsed
from serve.status.web.samples import EXPLANATION

replace = msgspec.structs.replace


def test_the_empty_form() -> None:
    found = Parsed(explain(Explained()))
    assert found.values("value") == ["outside", "outside", "host", ""]
    assert found.count("figure") == found.count("pre") == 0


def test_an_answer() -> None:
    found = Parsed(explain(Explained("host", "shop/web", (EXPLANATION, EXPLANATION))))
    assert found.values("value") == ["host", "outside", "host", "shop/web"]
    assert found.count("figure") == 2
    assert f"{render(EXPLANATION)}\n\n{render(EXPLANATION)}" in found.text


def test_a_question_without_an_answer() -> None:
    found = Parsed(explain(Explained("host", "missing", refusal="to missing: no such Service")))
    assert "to missing: no such Service" in found.text
    assert found.count("pre") == 0


# --- the way of a packet ----------------------------------------------------------------------


def drawn(explanation: Explanation) -> Parsed:
    return Parsed([drawing(explanation)])


def test_every_word_of_the_explanation_is_there() -> None:
    text = drawn(EXPLANATION).text
    words = (
        *("192.0.2.50 (outside) \u2192 203.0.113.20:443/TCP", EXPLANATION.client),
        *("load-balancer IP of Service shop/web, port https", "forward", EXPLANATION.summary),
        *("10.64.3.11:844350 %on this node, source kept",),
        *("10.65.7.21:844350 %on node heron, hairpin, source rewritten",),
        *("10.65.7.22:8443not chosenit is not ready", EXPLANATION.source_address),
        *(EXPLANATION.affinity, EXPLANATION.healing, EXPLANATION.replies, *EXPLANATION.notes),
    )
    assert [each for each in words if each not in text] == []


def test_a_destination_that_no_service_has() -> None:
    explanation = replace(
        EXPLANATION, verdict="pass", matched=None, endpoints=(), not_chosen=(), affinity=""
    )
    found = drawn(explanation)
    assert "Destination203.0.113.20:443/TCPno frontend of a Service" in found.text
    assert "fan" not in found.values("class")
    assert {"path unanswered", "back unanswered"} <= set(found.values("class"))
    assert "Affinity" not in found.text


def test_a_node_port_without_a_name() -> None:
    assert EXPLANATION.matched is not None
    matched = replace(EXPLANATION.matched, address="", port=31080, port_name="")
    assert "31080/TCPload-balancer IP of Service shop/webVerdict" in (
        drawn(replace(EXPLANATION, matched=matched)).text
    )


@pytest.mark.parametrize(
    ("verdict", "level"),
    [
        ("forward", "step good"),
        ("local proxy", "step good"),
        ("reject", "step bad"),
        ("drop", "step bad"),
        ("pass", "step plain"),
        ("new", "step plain"),
    ],
)
def test_the_colour_of_a_verdict(verdict: str, level: str) -> None:
    steps = [
        name
        for name in drawn(replace(EXPLANATION, verdict=verdict)).values("class")
        if name.startswith("step ")
    ]
    assert steps == ["step plain", "step plain", level]


def test_an_endpoint_whose_node_is_not_known() -> None:
    lost = Candidate("10.64.3.11:80", 100.0, "", False, False, False)
    assert "on a node that its slice does not name" in (
        drawn(replace(EXPLANATION, endpoints=(lost,))).text
    )


@pytest.mark.parametrize(
    ("chosen", "left_out", "drawn_of_each", "words"),
    [
        pytest.param(12, 0, (12, 0), "", id="all"),
        pytest.param(3, 9, (3, 9), "", id="all-though-most-are-left-out"),
        pytest.param(857, 143, (8, 4), "849 more and 139 more that are not chosen", id="many"),
        pytest.param(1060, 3, (9, 3), "1,051 more", id="few-left-out"),
        pytest.param(0, 50, (0, 12), "38 more that are not chosen", id="none-chosen"),
    ],
)
def test_of_many_endpoints_some_of_each_kind_are_drawn(
    chosen: int, left_out: int, drawn_of_each: tuple[int, int], words: str
) -> None:
    explanation = replace(
        EXPLANATION,
        endpoints=(Candidate("10.64.3.11:80", 1.0, "heron", False, False, False),) * chosen,
        not_chosen=(NotChosen("10.64.3.12:80", "it is not ready"),) * left_out,
    )
    found = drawn(explanation)
    classes = found.values("class")
    assert drawn_of_each == (classes.count("way"), classes.count("no-way"))
    assert drawn_of_each[1] == found.text.count("it is not ready")
    assert (f"{words}: see the text below" in found.text) == bool(words)


def test_lines_and_bars_show_the_shares() -> None:
    endpoints = tuple(
        Candidate("10.64.3.11:80", share, "heron", False, False, False) for share in (75.0, 25.0)
    )
    found = drawn(replace(EXPLANATION, endpoints=endpoints))
    paths = [attributes for tag, attributes in found.elements if tag == "path"]
    assert [path["d"].split()[-1] for path in paths] == ["0.5", "1.5", "2.5"]
    assert [path["class"] for path in paths] == ["way", "way", "no-way"]
    assert [path.get("stroke-width") for path in paths] == ["4.5", "2.5", None]
    assert found.values("width") == ["100%", "75%", "100%", "25%"]
