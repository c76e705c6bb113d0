"""Templates: what is text stays text, and links lead nowhere else."""

import pytest

from kubeproxy.serve.status.web.markup import (
    NOTHING,
    Content,
    Markup,
    TableColumn,
    address,
    facts,
    html,
    row,
    table,
)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param((), "<p></p>", id="nothing"),
        pytest.param("a & b", "<p>a &amp; b</p>", id="text"),
        pytest.param("<b>", "<p>&lt;b&gt;</p>", id="text-that-looks-like-markup"),
        pytest.param("{0} {x}", "<p>{0} {x}</p>", id="text-that-looks-like-a-field"),
        pytest.param(html("<b>{}</b>", "<"), "<p><b>&lt;</b></p>", id="markup"),
        pytest.param(("<", Markup("<b>"), NOTHING), "<p>&lt;<b></p>", id="several"),
        pytest.param((x for x in ("a", ("b", "c"))), "<p>abc</p>", id="several-of-several"),
        pytest.param("one\ntwo", "<p>one\ntwo</p>", id="lines-stay"),
        pytest.param("a\u202eb\x00c\n\x1b", "<p>a\ufffdb\ufffdc\n\ufffd</p>", id="unseen"),
    ],
)
def test_content(content: Content, expected: str) -> None:
    assert expected == html("<p>{}</p>", content).text


def test_fields_with_names() -> None:
    assert html("<p>{one}{two}{one}</p>", one="<", two=NOTHING).text == "<p>&lt;&lt;</p>"


def test_what_stands_in_quotes_stays_there() -> None:
    expected = '<p title="it&#x27;s &quot;&lt;&amp;&gt;&quot;"></p>'
    assert expected == html('<p title="{}"></p>', 'it\'s "<&>"').text


def test_addresses() -> None:
    assert address("status") == "/status"
    assert address("rules", "a/b", "../<x>") == "/rules/a%2Fb/..%2F%3Cx%3E"
    assert address("status", q="a&b=c", sort="name") == "/status?q=a%26b%3Dc&sort=name"
    assert address("status", "javascript:x", "//x/") == "/status/javascript%3Ax/%2F%2Fx%2F"


def test_facts() -> None:
    expected = "<dl><dt>a</dt><dd>&lt;</dd><dt>b</dt><dd></dd></dl>"
    assert expected == facts([("a", "<"), ("b", "")]).text


def test_a_table() -> None:
    columns = (TableColumn("Name"), TableColumn("Age", "number", "/by-age", "ascending"))
    rows = (row(columns, ("a", "1", "left out")), row(columns, ("<", "2"), "old"))
    assert "".join(piece.text for piece in table("All", columns, rows)) == (
        "<table><caption>All</caption><thead><tr>"
        '<th scope="col">Name</th>'
        '<th scope="col" class="number" aria-sort="ascending"><a href="/by-age">Age</a></th>'
        "</tr></thead><tbody>"
        '<tr><td data-label="Name">a</td><td data-label="Age" class="number">1</td></tr>'
        '<tr class="old"><td data-label="Name">&lt;</td>'
        '<td data-label="Age" class="number">2</td></tr>'
        "</tbody></table>"
    )
