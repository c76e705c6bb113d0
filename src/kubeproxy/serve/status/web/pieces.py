"""Small pieces that several parts of a page are made of."""

from kubeproxy.serve.status.web.markup import Markup, element

LEVELS = {"ok": "good", "partly": "warn", "failed": "bad"}
"""How bad the outcomes of syncs are."""


def badge(word: str, level: str) -> Markup:
    """A word whose colour says the same."""
    return element("strong", word, class_=f"badge {level}")


def fact(label: str, text: str) -> tuple[Markup, Markup]:
    """A line of a list of facts."""
    return element("dt", label), element("dd", text)
