"""Asks the daemon; where none answers, or a cluster is named, what it would answer."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from kubeproxy.base.errors import NoDaemonError
from kubeproxy.config.flagset import Parsed
from kubeproxy.tools import client
from kubeproxy.tools.clusterflags import NAMES_CLUSTER

if TYPE_CHECKING:
    from kubeproxy.serve.status.state import State

T = TypeVar("T")


class AnyClient(client.Client):
    """A client that finds its answers in the cluster where the daemon gives none."""

    def __init__(self, places: list[str], parsed: Parsed) -> None:
        super().__init__(places)
        self._parsed = parsed
        self._state: State | None = None
        self._has_answered = False

    def _ask(self, path: str, query: client.Query, read: Callable[[bytes], T]) -> T:
        no_daemon = None
        if self._state is None and self._parsed.given.isdisjoint(NAMES_CLUSTER):
            try:
                answer = super()._ask(path, query, read)
            except NoDaemonError as error:
                if self._has_answered:
                    raise
                no_daemon = error
            else:
                self._has_answered = True
                return answer
        from kubeproxy.tools import offline  # noqa: PLC0415  # costly to import

        if self._state is None:
            self._state = offline.state_instead(self._parsed, no_daemon)
        return read(offline.answered(self._state, client.target_of(path, query)))


def connect(parsed: Parsed) -> AnyClient:
    """A client of the daemon that the flags name, or of the cluster."""
    return AnyClient(client.connect(parsed).places, parsed)
