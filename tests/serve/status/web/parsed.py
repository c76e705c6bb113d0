"""HTML as a browser's parser sees it: which elements, with which attributes, and the text."""

from collections.abc import Iterable
from html.parser import HTMLParser

from kubeproxy.serve.status.web.markup import Markup

Structure = list[tuple[str, tuple[str, ...]]]
VOID = {"input", "link", "meta"}


class Parsed(HTMLParser):
    """What was found. Elements that are not closed in order are an error."""

    def __init__(self, pieces: Iterable[Markup]) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed("".join(piece.text for piece in pieces))
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert tag == self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open[-1:] not in (["script"], ["style"]):
            self.text += data

    @property
    def structure(self) -> Structure:
        """The elements and the names of their attributes."""
        return [(tag, tuple(attributes)) for tag, attributes in self.elements]

    def values(self, attribute: str) -> list[str]:
        """What an attribute says, wherever it stands."""
        return [found[attribute] for _, found in self.elements if attribute in found]

    def count(self, tag: str) -> int:
        """How many of an element there are."""
        return sum(name == tag for name, _ in self.elements)
