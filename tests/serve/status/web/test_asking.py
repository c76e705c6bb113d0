"""The explain form keeps what was asked, and the answer is the command's."""

from kubeproxy.explain.words import render
from kubeproxy.serve.status.web.asking import Asking, explain
from serve.status.web.parsed import Parsed
from serve.status.web.samples import EXPLANATION


def test_the_empty_form() -> None:
    found = Parsed(explain(Asking()))
    assert found.values("value") == ["outside", "outside", "host", ""]
    assert found.count("figure") == found.count("pre") == 0


def test_an_answer() -> None:
    found = Parsed(explain(Asking("host", "shop/web", (EXPLANATION, EXPLANATION))))
    assert found.values("value") == ["host", "outside", "host", "shop/web"]
    assert found.count("figure") == 2
    assert f"{render(EXPLANATION)}\n\n{render(EXPLANATION)}" in found.text


def test_a_question_without_an_answer() -> None:
    found = Parsed(explain(Asking("host", "nobody", refusal="to nobody: no such Service")))
    assert "to nobody: no such Service" in found.text
    assert found.count("pre") == 0
