"""A process that wrote rules, as the kernel names it."""

from typing import NamedTuple

from kubeproxy.base.printable import printable


class Writer(NamedTuple):
    """Its name, which has 15 characters at most, and its number in the first PID namespace."""

    name: str
    pid: int

    def __str__(self) -> str:
        return f"{printable(self.name)} (pid {self.pid})"


def writer_text(writer: Writer | None) -> str:
    """Who it was, as far as that is known."""
    return "an unknown program" if writer is None else str(writer)
