"""HTML and SVG from templates that always escape, and the pieces that several pages are made of.

A plain string is text, wherever it stands; only `Markup` is markup. So a name that looks like HTML
stays a name.
"""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final, TypeAlias
from urllib.parse import quote, urlencode

import msgspec

from kubeproxy.base.printable import printable


class Markup(msgspec.Struct, frozen=True, gc=False):
    """HTML that may stand in a page as it is. Never made of a text from anywhere else."""

    text: str


Content: TypeAlias = "Markup | str | Iterable[Content]"

NOTHING: Final = Markup("")


def html(template: str, /, *values: Content, **named: Content) -> Markup:
    """A template of this program, its fields filled with texts that are escaped, and with markup.

    Fields stand between tags and in the quotes of attributes, nowhere else.
    """
    texts = {name: _text(value) for name, value in named.items()}
    return Markup(template.format(*map(_text, values), **texts))


def _text(content: Content) -> str:
    if isinstance(content, Markup):
        return content.text
    if not isinstance(content, str):
        return "".join(map(_text, content))
    if not content.isprintable():
        # What is not seen, or turns around what is, is replaced; lines stay lines.
        content = "\n".join(map(printable, content.split("\n")))
    return escape(content)


def address(*path: str, **query: str) -> str:
    """A place of this server: each part is one part of the path, whatever it contains."""
    where = "".join("/" + quote(part, safe="") for part in path)
    return f"{where}?{urlencode(query)}" if query else where


# --- pieces -----------------------------------------------------------------------------------

LEVELS = {"ok": "good", "partly": "warn", "failed": "bad"}
"""How bad the outcomes of syncs are."""


def badge(word: str, level: str) -> Markup:
    """A word whose colour says the same."""
    return html('<strong class="badge {}">{}</strong>', level, word)


def facts(pairs: Iterable[tuple[str, str]]) -> Markup:
    """A list of labels and texts."""
    return html("<dl>{}</dl>", (html("<dt>{}</dt><dd>{}</dd>", *pair) for pair in pairs))


class TableColumn(msgspec.Struct, frozen=True):
    """A column: its title, what its cells are, and where a click sorts by it.

    `kind` is "number", "address" (which is not broken into lines) or "". `sort` says how the
    table is sorted by it, "" when it is not.
    """

    title: str
    kind: str = ""
    href: str = ""
    sort: str = ""


def table(
    caption: str, columns: Sequence[TableColumn], rows: Iterable[Markup]
) -> Iterator[Markup]:
    """A table, piece by piece."""
    titles = (
        html(
            '<th scope="col"{}{}>{}</th>',
            _attribute("class", column.kind),
            _attribute("aria-sort", column.sort),
            html('<a href="{}">{}</a>', column.href, column.title)
            if column.href
            else column.title,
        )
        for column in columns
    )
    head = "<table><caption>{}</caption><thead><tr>{}</tr></thead><tbody>"
    yield html(head, caption, titles)
    yield from rows
    yield html("</tbody></table>")


def row(columns: Sequence[TableColumn], cells: Sequence[Content], kind: str = "") -> Markup:
    """A row; cells beyond the columns are left out.

    Cells know the title of their column, for when there is no room for it above.
    """
    made = (
        html('<td data-label="{}"{}>{}</td>', column.title, _attribute("class", column.kind), cell)
        for column, cell in zip(columns, cells, strict=False)
    )
    return html("<tr{}>{}</tr>", _attribute("class", kind), made)


def _attribute(name: str, value: str) -> Markup:
    """An attribute that is left out when it says nothing."""
    return html(' {}="{}"', name, value) if value else NOTHING
