"""Elements of HTML and SVG, made so that nobody can forget to escape.

A plain string is text, wherever it stands; only what an element is made of is markup. So a name
that looks like HTML stays a name.
"""

from collections.abc import Iterable
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
    """Text of this program that is markup already. Never for anything that somebody else wrote."""
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
