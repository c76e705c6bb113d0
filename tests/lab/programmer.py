"""Whoever programs kestrel's kernel: the seam at which a dataplane is plugged into the lab."""

import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from kubeproxy.base.inet import Family
from lab.documents import complete
from lab.launch import Started, launcher
from lab.namespaces import Namespace
from lab.plan import cluster_ip
from lab.relayed import children_of, is_worker, workers_of
from world import NODE_NAME

Documents = Iterable[Mapping[str, object]]

START_SECONDS = 120.0
SYNC_SECONDS = 60.0
STOP_SECONDS = 60.0
_SYNCED = re.compile(r'"Synced" (?P<pairs>.*)')
_TESTS = Path(__file__).parents[1]


class Programmer(Protocol):
    """Makes the kernel of kestrel's namespace do what the documents say."""

    def start(self, flags: Sequence[str], documents: Documents) -> None:
        """Begin with kube-proxy's flags; returns when everything is programmed."""
        ...

    def put(self, documents: Documents) -> None:
        """These are all documents now; returns when that is programmed."""
        ...

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End; what is programmed stays."""
        ...

    def said(self) -> str:
        """What it has to say about itself, for people who look at a failure."""
        ...


class DaemonProcess:
    """The daemon as operators run it, on a directory of manifests.

    How we know that it is done: every put changes the port of a Service that no client uses, so
    that both families have something to program, and the log says when they did. `through` is
    a command that starts the daemon, in surroundings of its making. It answers at `socket`.
    """

    def __init__(self, node: Namespace, directory: Path, through: Sequence[str] = ()) -> None:
        self.socket = directory / "status.sock"
        self._node = node
        self._through = through
        self._manifests = directory / "manifests"
        self._manifests.mkdir()
        self._log = directory / "daemon.log"
        self._log.touch()
        self._process: Started | None = None
        self._pulses = itertools.cycle(range(1, 60000))

    def start(self, flags: Sequence[str], documents: Documents) -> None:
        """Start the process; returns when it has programmed the documents."""
        before = self._log.stat().st_size
        self.write(documents)
        self.launch(flags)
        self._wait_synced(before, START_SECONDS)

    def launch(self, flags: Sequence[str], log: int | None = None) -> None:
        """Start the process with the documents that are there, and do not wait for anything.

        It writes its log to that descriptor, if there is one.
        """
        assert self._process is None, "the daemon runs already"
        arguments = [
            f"--status-socket={self.socket}",
            *flags,
            f"--manifests={self._manifests}",
            f"--hostname-override={NODE_NAME}",
            "--iptables-min-sync-period=0s",
            "--ipvs-min-sync-period=0s",
            "-v=2",
        ]
        environment = {
            **os.environ,
            "PYTHONPATH": str(_TESTS),
            "PYTHONWARNINGS": "error",
            "PYTHONFAULTHANDLER": "1",
        }
        with self._node.entered(), self._log.open("ab") as usual:
            into = usual.fileno() if log is None else log
            self._process = launcher(self._through).daemon(arguments, environment, into)

    def put(self, documents: Documents) -> None:
        """Replace the manifests; returns when the daemon has programmed the difference."""
        before = self._log.stat().st_size
        self.write(documents)
        self._wait_synced(before, SYNC_SECONDS)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send the signal, and wait for the end."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            code = process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired as error:
            process.send_signal(signal.SIGABRT)  # it writes the stacks of its threads
            process.wait()
            raise AssertionError(f"the daemon does not end:\n{self.said()}") from error
        expected = -number if number is signal.SIGKILL else 128 + number
        assert code == expected, f"the daemon ended with {code}:\n{self.said()}"

    @property
    def manifests(self) -> Path:
        """The directory that it reads."""
        return self._manifests

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Inside, the process does nothing, and what programs it had started have ended.

        Workers of userspace mode are no such programs: they live as long as it does.
        """
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            while not all(map(is_worker, children_of(self._process.pid))):
                time.sleep(0.01)
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    @property
    def workers(self) -> list[int]:
        """Its worker processes, which userspace mode has."""
        assert self._process is not None
        return workers_of(self._process.pid)

    def said(self) -> str:
        """The end of the log."""
        return "\n".join(self.log().splitlines()[-40:])

    def log(self) -> str:
        """All that it said since the first start."""
        return self._log.read_text()

    def write(self, documents: Documents) -> None:
        """All documents appear at once."""
        every = [*documents, _pulse(next(self._pulses))]
        hidden = self._manifests / ".cluster.yaml"
        hidden.write_text("\n---\n".join(json.dumps(complete(document)) for document in every))
        hidden.rename(self._manifests / "cluster.yaml")

    def _wait_synced(self, before: int, seconds: float) -> None:
        """Wait until each family has programmed something since the log had that size."""
        deadline = time.monotonic() + seconds
        missing = set(Family)
        with self._log.open() as log:
            log.seek(before)
            text = ""
            while missing:
                text += log.read()
                *lines, text = text.split("\n")
                missing -= {family for line in lines for family in _synced_families(line)}
                if missing:
                    self._check_alive(deadline)
                    time.sleep(0.002)

    def _check_alive(self, deadline: float) -> None:
        assert self._process is not None
        code = self._process.poll()
        if code is not None:
            self._process = None
            raise AssertionError(f"the daemon ended with {code}:\n{self.said()}")
        if time.monotonic() > deadline:
            raise AssertionError(f"the daemon does not get done:\n{self.said()}")


def _synced_families(line: str) -> set[Family]:
    """The family of which the line says that something was programmed, if it says so."""
    match = _SYNCED.search(line)
    if match is None:
        return set()
    pairs = dict(pair.split("=", 1) for pair in match["pairs"].split())
    assert pairs["failed"] == "0", f"not everything could be programmed: {line}"
    with contextlib.suppress(KeyError):
        # Not any full sync: one that was due anyway may have begun before the change.
        if any(pairs[word] != "0" for word in ("added", "changed", "removed")):
            return {Family(pairs["ipFamily"].strip('"'))}
    return set()


def _pulse(number: int) -> Mapping[str, object]:
    """A Service that no client dials, with this port."""
    addresses = [cluster_ip(255, family) for family in Family]
    return {
        "kind": "Service",
        "metadata": {"namespace": "lab", "name": "pulse"},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": addresses[0],
            "clusterIPs": addresses,
            "ipFamilies": [family.value for family in Family],
            "ports": [{"name": "pulse", "port": number, "protocol": "TCP"}],
        },
    }
