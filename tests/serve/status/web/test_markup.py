"""Elements: what is text stays text, and links lead nowhere else."""

import pytest

from kubeproxy.serve.status.web.markup import (
    NOTHING,
    Attribute,
    Child,
    Markup,
    address,
    element,
    together,
    trusted,
)


@pytest.mark.parametrize(
    ("children", "expected"),
    [
        pytest.param((), "<p></p>", id="nothing"),
        pytest.param(("a & b",), "<p>a &amp; b</p>", id="text"),
        pytest.param(("<b>",), "<p>&lt;b&gt;</p>", id="text-that-looks-like-markup"),
        pytest.param((element("b", "x"), None, "y"), "<p><b>x</b>y</p>", id="several"),
        pytest.param((trusted("<hr>"),), "<p><hr></p>", id="our-own"),
        pytest.param(("one\ntwo",), "<p>one\ntwo</p>", id="lines-stay"),
        pytest.param(("a\u202eb\x00c\n\x1b",), "<p>a\ufffdb\ufffdc\n\ufffd</p>", id="unseen"),
    ],
)
def test_children(children: tuple[Child, ...], expected: str) -> None:
    assert expected == element("p", *children).text


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        pytest.param("title", 'it\'s "<&>"', "it&#x27;s &quot;&lt;&amp;&gt;&quot;", id="quoted"),
        pytest.param("title", "a\nb", "a\nb", id="lines"),
        pytest.param("width", 3, "3", id="number"),
    ],
)
def test_attributes_are_quoted(name: str, value: Attribute, expected: str) -> None:
    assert f'<p {name}="{expected}"></p>' == element("p", **{name: value}).text


def test_attributes_that_are_there_or_not() -> None:
    found = element("input", type="text", required=True, disabled=False, list_=None, class_="a")
    assert found.text == '<input type="text" required class="a">'
    assert element("svg", aria_hidden="true", viewBox="0 0 1 1").text == (
        '<svg aria-hidden="true" viewBox="0 0 1 1"></svg>'
    )


@pytest.mark.parametrize("place", ["/status", "?q=1", "#syncs"])
def test_links_lead_to_places_of_ours(place: str) -> None:
    assert f'href="{place}"' in element("a", "x", href=place).text


@pytest.mark.parametrize(
    "place", ["javascript:alert(1)", "//example.com/", "https://example.com/", "x", ""]
)
@pytest.mark.parametrize("attribute", ["href", "src", "action"])
def test_links_to_elsewhere_are_refused(attribute: str, place: str) -> None:
    with pytest.raises(ValueError, match="does not lead to a place of this server"):
        element("a", **{attribute: place})


def test_addresses() -> None:
    assert address("status") == "/status"
    assert address("rules", "a/b", "../<x>") == "/rules/a%2Fb/..%2F%3Cx%3E"
    assert address("status", q="a&b=c", sort="name") == "/status?q=a%26b%3Dc&sort=name"


def test_together() -> None:
    assert together(("<", None, Markup("<b>"), NOTHING)).text == "&lt;<b>"
