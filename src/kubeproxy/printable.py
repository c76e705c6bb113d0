"""Texts that others chose, made safe to show: free to be imported by all."""


def printable(text: str) -> str:
    """A text that does nothing to a terminal, whatever names are in it."""
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(char: str) -> str:
    return char if char.isprintable() else "\ufffd"
