"""`kube-proxy diff` as people start it, on kestrel: in a terminal or at the end of a pipe.

A daemon repairs at once what others change, and a stopped daemon answers no request. So it is
asked before: `remembered` says again what it said.
"""

import contextlib
import os
import pty
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fakes.daemon import FakeDaemon, Page, Query, Reply, serving
from kubeproxy.base.inet import Family
from kubeproxy.serve.status.wire import DaemonStatus
from kubeproxy.tools.client import Client
from lab.launch import KUBE_PROXY, SECONDS, Ran, launcher
from lab.namespaces import Namespace
from lab.programmer import DaemonProcess

EQUAL = Ran(0, "")


def run_diff(node: Namespace, *arguments: str, through: Sequence[str] = ()) -> Ran:
    """At the end of a pipe."""
    with node.entered():
        return launcher(through).tool(["diff", *arguments], _environment())


def run_diff_in_terminal(
    node: Namespace, *arguments: str, settings: Mapping[str, str] | None = None
) -> Ran:
    """In a terminal, narrow as they are."""
    reading, writing = pty.openpty()
    with node.entered():
        process = subprocess.Popen(
            [*KUBE_PROXY, "diff", *arguments],
            stdin=writing,
            stdout=writing,
            stderr=writing,
            env={**_environment(), **(settings or {})},
        )
    os.close(writing)
    said = b""
    with contextlib.suppress(OSError):  # the other end of a terminal that is closed
        while piece := os.read(reading, 1 << 16):
            said += piece
    os.close(reading)
    return Ran(process.wait(SECONDS), said.decode())


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    return {**kept, "TERM": "xterm", "PYTHONWARNINGS": "error"}


@contextlib.contextmanager
def remembered(daemon: DaemonProcess, directory: Path) -> Iterator[FakeDaemon]:
    """The running daemon's answers of now, served again by a process that does not repair."""
    client = Client([str(daemon.socket)])
    status = client.get("/status", DaemonStatus)
    tables = {
        family: client.read("/status/table", {"family": family.value}).decode()
        for family in Family
    }

    cluster = client.read("/status/cluster").decode()

    def table(query: Query) -> Reply:
        return 200, tables[Family(query["family"][0])]

    pages: dict[str, Page] = {
        "/status": lambda _: status,
        "/status/table": table,
        "/status/cluster": lambda _: (200, cluster),
    }
    with serving(FakeDaemon(pages), directory / "remembered.sock") as answering:
        yield answering
