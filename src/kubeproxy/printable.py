"""Texts that others chose, made safe to show: free to be imported by all."""


def printable(text: str) -> str:
    """A text that does nothing to a terminal, whatever names are in it."""
    return text if text.isprintable() else "".join(map(_shown, text))


def printable_lines(text: str) -> str:
    """The same of several lines, which stay lines."""
    return "\n".join(map(printable, text.split("\n")))


def _shown(char: str) -> str:
    return char if char.isprintable() else "\ufffd"
