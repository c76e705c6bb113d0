"""What can be wrong with flags and config files: always the operator's to mend."""

from collections.abc import Iterable

from kubeproxy.base.errors import OperatorError


class ValueTextError(OperatorError):
    """A text is not a value of the kind that was asked for; says why, but not where."""


class UsageError(OperatorError):
    """The command line cannot be understood.

    `show_usage` tells whether the usage text helps: it stands before the error then.
    """

    def __init__(self, cause: str, *, show_usage: bool = True) -> None:
        super().__init__(cause)
        self.show_usage = show_usage


class ConfigError(OperatorError):
    """The configuration cannot be used; the text begins with the step that found out."""


def joined(texts: Iterable[str]) -> str:
    """One text as it is, several as `[a, b]`; a text that occurs twice is said once."""
    unique = list(dict.fromkeys(texts))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"
