"""When a datagram is known to be unanswered although a process passes it on, which takes its time.

Sentinels (`lab.sentinel`) prove that packets have gone their way. The workers of userspace mode
stand in that way: a datagram may be back at its sender's only when they have read it, its endpoint
has answered, and they have read the answer. Each of these is proved in turn. A worker has read
all that was there when nothing waits in its sockets, and has dealt with it when it sleeps again:
it sleeps only to wait for more. Workers run on the processor that handles the lab's packets.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from lab.network import Network
from lab.sentinel import Origin, send_sentinels

SECONDS = 60.0
_MODULE = b"kubeproxy.dataplane.userspace.worker"
_SOCKET = "socket:["

Settle = Callable[[Network, Iterable[Origin]], None]
"""Returns when all answers to what was sent from these hosts have come."""


def settle(network: Network, origins: Iterable[Origin]) -> None:
    """Have sentinels go each part of the way."""
    origins = tuple(origins)
    for _part in ("to a worker", "to an endpoint"):
        send_sentinels(network, {*origins, *_of_the_node(origins)})
        _wait_for_workers(network)
    send_sentinels(network, origins)


def _of_the_node(origins: Iterable[Origin]) -> set[Origin]:
    """What workers send comes from the node itself."""
    return {("H", family) for _, family in origins}


def workers_of(pid: int) -> list[int]:
    """The worker processes of a daemon."""
    return [child for child in children_of(pid) if is_worker(child)]


def is_worker(pid: int) -> bool:
    """Whether the process is a worker of userspace mode."""
    try:
        return _MODULE in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return False


def children_of(pid: int) -> list[int]:
    """The processes that it started; one that has ended is a zombie, and is none of them."""
    return [child for child in _processes() if _stat(child)[1] == pid and _stat(child)[0] != "Z"]


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _stat(pid: int) -> tuple[str, int]:
    """The state of a process, and its parent; that of a zombie when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "Z", 0
    state, parent = text.rpartition(")")[2].split()[:2]
    return state, int(parent)


def _wait_for_workers(network: Network) -> None:
    """Wait until all workers in the node's namespace have dealt with all that came to them."""
    for pid in _workers_in(network):
        deadline = time.monotonic() + SECONDS
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            while _has_something_to_read(pid) or _stat(pid)[0] != "S":
                assert time.monotonic() < deadline, f"worker {pid} does not get done"
                os.sched_yield()


def _workers_in(network: Network) -> list[int]:
    here = network.node.path
    return [pid for pid in filter(is_worker, _processes()) if _is_in(pid, here)]


def _is_in(pid: int, namespace: Path) -> bool:
    """Whether the process runs in that network namespace."""
    try:
        return namespace.samefile(f"/proc/{pid}/ns/net")
    except OSError:  # gone, or not ours
        return False


def _has_something_to_read(pid: int) -> bool:
    """Whether a datagram waits in one of its sockets."""
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            link = str(descriptor.readlink())
            if link.startswith(_SOCKET):
                inodes.add(link.removeprefix(_SOCKET).rstrip("]"))
    for table in ("udp", "udp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            waiting = int(words[4].partition(":")[2], 16)
            if waiting and words[9] in inodes:
                return True
    return False
