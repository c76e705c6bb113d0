"""What can be wrong with flags and config files, and notices for the log; all for the operator."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from enum import Enum

import msgspec

from kubeproxy.base import gotext
from kubeproxy.base.errors import OperatorError


class ValueTextError(OperatorError):
    """A text is not a value of the expected kind; says why, but not where."""


class UsageError(OperatorError):
    """The command line cannot be understood.

    With `show_usage`, the usage text is shown before the error.
    """

    def __init__(self, cause: str, *, show_usage: bool = True) -> None:
        super().__init__(cause)
        self.show_usage = show_usage


class ConfigError(OperatorError):
    """The configuration cannot be used; the text begins with the step that failed."""


class Level(Enum):
    """The severity of a notice."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Notice(msgspec.Struct, frozen=True):
    """One line for the log, which is not an error: a constant text and its data."""

    level: Level
    message: str
    pairs: Mapping[str, object] = {}


def joined(texts: Iterable[str]) -> str:
    """One text as it is, several as `[a, b]`; repeated texts are left out."""
    unique = list(dict.fromkeys(texts))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant, or None.

    Upper and lower case, dashes and underscores do not count as differences.
    """
    by_plain = {_plain(candidate): candidate for candidate in known}
    found = get_close_matches(_plain(name), by_plain, n=1, cutoff=0.7)
    return by_plain[found[0]] if found else None


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


# --- fields, in the layout of Kubernetes' API errors ------------------------------------------


def invalid(path: str, value: object, detail: str) -> str:
    """A wrong value."""
    return f"{path}: Invalid value: {_shown(value)}: {detail}"


def unsupported(path: str, value: str, supported: Sequence[str]) -> str:
    """A value that is none of the choices."""
    choices = ", ".join(map(gotext.quote, supported))
    return f"{path}: Unsupported value: {_shown(value)}: supported values: {choices}"


def _shown(value: object) -> str:
    """A value as JSON; what is neither number nor list is shown as its text."""
    if isinstance(value, tuple):
        return f"[{','.join(map(gotext.quote, value))}]"
    return str(value) if isinstance(value, int) else gotext.quote(str(value))
