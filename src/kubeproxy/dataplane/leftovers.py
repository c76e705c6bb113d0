"""What a mode left in the kernel: what happens to it at the start, and how it is removed."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kubeproxy.base.errors import KernelError


class Fate(NamedTuple):
    """What happens to something when the proxy starts; with a remedy where that is not good."""

    text: str
    remedy: str = ""


class Leftover(NamedTuple):
    """Something that was found, and what happens to it.

    `own` is its fate when the proxy starts in the mode that it belongs to, `beside` in a mode that
    shares the iptables chains with that one, `removed` in all others.
    """

    what: str
    there: str
    own: Fate
    removed: Fate
    beside: Fate


REMOVED = Fate("removed after the first sync")
TAKEN_OVER = Fate("taken over, without a gap")
CLEAN_UP = "stop the old proxy and run `kube-proxy --cleanup` before the new one starts"


class Cleanup:
    """One removal of leftovers: what was removed, what could not be, what stays on purpose.

    `has_nf_tables` says whether the kernel has nf_tables; `report` is called for each thing that
    was removed.
    """

    def __init__(self, *, has_nf_tables: bool, report: Callable[[str], None]) -> None:
        self.has_nf_tables = has_nf_tables
        self.removed: list[str] = []
        self.failed: list[str] = []
        self.kept: list[tuple[str, dict[str, Any]]] = []
        self._report = report

    def note(self, what: str) -> None:
        """Something was removed."""
        self._report(what)
        self.removed.append(what)

    def keep(self, why: str, **what: Any) -> None:
        """Something that looks like kube-proxy's stays."""
        self.kept.append((why, what))

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Note a failure inside, and go on with the next step."""
        try:
            yield
        except KernelError as error:
            self.failed.append(str(error))
