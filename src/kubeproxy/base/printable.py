"""Texts of unknown origin, made safe to show. Free to be imported by all."""

LONGEST_QUOTED = 100


def printable(text: str) -> str:
    """A text that does nothing to a terminal, whatever names are in it."""
    return text if text.isprintable() else "".join(map(_shown, text))


def printable_lines(text: str) -> str:
    """The same of several lines, which stay lines."""
    return "\n".join(map(printable, text.split("\n")))


def quoted(value: object) -> str:
    """A value as it is quoted in a message; a long one is cut."""
    text = repr(value)
    if len(text) <= LONGEST_QUOTED:
        return text
    return f"{text[:LONGEST_QUOTED]}... ({len(text)} characters)"


def _shown(char: str) -> str:
    return char if char.isprintable() else "\ufffd"
