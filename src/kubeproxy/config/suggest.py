"""The name that was probably meant."""

from collections.abc import Iterable
from difflib import get_close_matches


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like the given one, or None when none is like it at all.

    Upper and lower case, dashes and underscores are what people get wrong first, so they do not
    count as differences.
    """
    by_plain = {_plain(candidate): candidate for candidate in known}
    found = get_close_matches(_plain(name), by_plain, n=1, cutoff=0.7)
    return by_plain[found[0]] if found else None


def _plain(name: str) -> str:
    """A name without what people get wrong first."""
    return name.lower().replace("-", "").replace("_", "")
