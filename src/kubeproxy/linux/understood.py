"""What the kernel answers, when it makes no sense: an error that says what was asked."""

import contextlib
import struct
from collections.abc import Iterator

from kubeproxy.base.errors import KernelError

NONSENSE = (LookupError, ValueError, TypeError, ArithmeticError, struct.error)
"""What taking bytes apart raises when they are not laid out as they should be."""


class NotUnderstood(KernelError):
    """The kernel, or a program that stands for it, answered with something unexpected."""


@contextlib.contextmanager
def understood(what: str) -> Iterator[None]:
    """Around reading an answer; `what` is what an error says could not be done.

    Once around all of an answer, so that it costs nothing for each of its parts.
    """
    try:
        yield
    except NONSENSE as error:
        reason = f"{type(error).__name__}: {error}"
        raise NotUnderstood(f"{what}: the answer makes no sense ({reason})") from error
