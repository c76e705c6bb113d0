"""Elements of HTML and SVG that always escape, and the pieces that several pages are made of.

A plain string is text, wherever it stands; only `Markup` is markup. So a name that looks like HTML
stays a name.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from html import escape
from typing import Final
from urllib.parse import quote, urlencode

import msgspec

from kubeproxy.base.printable import printable


class Markup(msgspec.Struct, frozen=True, gc=False):
    """HTML that may stand in a page as it is. Made by `element`, and by `trusted` for our own."""

    text: str


Child = Markup | str | None
Attribute = str | int | float | bool | None

NOTHING: Final = Markup("")
_VOID: Final = frozenset({"input", "link", "meta"})
_ADDRESSES: Final = frozenset({"href", "src", "action"})
_OWN_PLACES: Final = ("/", "?", "#")


def element(name: str, /, *children: Child, **attributes: Attribute) -> Markup:
    """An element with its attributes and children; a child that is None is left out.

    `class_` stands for `class`, and `aria_label` for `aria-label`. An attribute that is None or
    False is left out, and one that is True has no value.
    """
    begin = "".join([f"<{name}", *[_attribute(*each) for each in attributes.items()], ">"])
    if name in _VOID:
        return Markup(begin)
    return Markup("".join([begin, *[_text(child) for child in children], f"</{name}>"]))


def together(children: Iterable[Child]) -> Markup:
    """Several one after the other."""
    return Markup("".join(map(_text, children)))


def trusted(text: str) -> Markup:
    """Text of this program that is markup already. Never for a text from anywhere else."""
    return Markup(text)


def address(*path: str, **query: str) -> str:
    """A place of this server: each part is one part of the path, whatever it contains."""
    where = "".join("/" + quote(part, safe="") for part in path)
    return f"{where}?{urlencode(query)}" if query else where


def _text(child: Child) -> str:
    if child is None:
        return ""
    return child.text if isinstance(child, Markup) else _escaped(child)


def _escaped(text: str) -> str:
    """The text without what is not seen, or would turn around what is; lines stay lines."""
    if not text.isprintable():
        text = "\n".join(map(printable, text.split("\n")))
    return escape(text)


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = _name(key)
    if value is True:
        return f" {name}"
    text = str(value)
    if name in _ADDRESSES and (not text.startswith(_OWN_PLACES) or text.startswith("//")):
        raise ValueError(f"{name}={text!r} does not lead to a place of this server")
    return f' {name}="{_escaped(text)}"'


@cache
def _name(key: str) -> str:
    return key.removesuffix("_").replace("_", "-")


# --- pieces -----------------------------------------------------------------------------------

LEVELS = {"ok": "good", "partly": "warn", "failed": "bad"}
"""How bad the outcomes of syncs are."""


def badge(word: str, level: str) -> Markup:
    """A word whose colour says the same."""
    return element("strong", word, class_=f"badge {level}")


def fact(label: str, text: str) -> tuple[Markup, Markup]:
    """A line of a list of facts."""
    return element("dt", label), element("dd", text)


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
        element(
            "th",
            element("a", column.title, href=column.href) if column.href else column.title,
            scope="col",
            class_=column.kind or None,
            aria_sort=column.sort or None,
        )
        for column in columns
    )
    yield together(
        (
            trusted("<table>"),
            element("caption", caption),
            element("thead", element("tr", *titles)),
            trusted("<tbody>"),
        )
    )
    yield from rows
    yield trusted("</tbody></table>")


def row(
    columns: Sequence[TableColumn], cells: Sequence[Child], class_: str | None = None
) -> Markup:
    """A row; cells beyond the columns are left out.

    Cells know the title of their column, for when there is no room for it above.
    """
    made = (
        element("td", cell, data_label=column.title, class_=column.kind or None)
        for column, cell in zip(columns, cells, strict=False)
    )
    return element("tr", *made, class_=class_)
