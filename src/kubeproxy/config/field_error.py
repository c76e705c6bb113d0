"""What is wrong with a field, in the layout of Kubernetes' API errors."""

from collections.abc import Sequence

from kubeproxy.base import gotext
from kubeproxy.config.duration import Duration

BadValue = str | int | Duration | Sequence[str]


def invalid(path: str, value: BadValue, detail: str) -> str:
    """A value that cannot be."""
    return f"{path}: Invalid value: {_shown(value)}: {detail}"


def duplicate(path: str, value: str) -> str:
    """A value that stands there a second time."""
    return f"{path}: Duplicate value: {_shown(value)}"


def unsupported(path: str, value: str, supported: Sequence[str]) -> str:
    """A value that is none of the choices."""
    choices = ", ".join(map(gotext.quote, supported))
    return f"{path}: Unsupported value: {_shown(value)}: supported values: {choices}"


def forbidden(path: str, detail: str) -> str:
    """A field that must not be set."""
    return f"{path}: Forbidden: {detail}"


def required(path: str, detail: str) -> str:
    """A field that must be set."""
    return f"{path}: Required value: {detail}"


def _shown(value: BadValue) -> str:
    """A value as JSON."""
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str | Duration):
        return gotext.quote(str(value))
    return f"[{','.join(map(gotext.quote, value))}]"
