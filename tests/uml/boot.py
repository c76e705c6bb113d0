"""Boots a Linux that runs as a process of this user, and runs one command in it.

Debian's user-mode-linux: a kernel with ipvs, dummy devices, SCTP and all of xtables, whatever the
kernel of this machine has. The host's file system is its root; see `init` for what it may write.
"""

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import msgspec

from lab.namespaces import die_with_parent
from uml.init import MODULES
from uml.job import Job

KERNEL = "linux.uml"
REGISTERS = Path(__file__).with_name("registers.c")
"""What the kernel needs on processors with more registers than it knows."""
TESTS = Path(__file__).parents[1]
TIMED_OUT = 124
NOT_RUN = 125
"""The exit codes that are not the command's own, as those of timeout(1)."""
_TAIL = 30
_KEPT = 1 << 16
_ADVICE = (
    "The test kernel is not installed: there is no {what}. Run:  apt-get install user-mode-linux"
)
_NO_COMPILER = (
    "The test kernel needs a small library, and it cannot be compiled: {why}. "
    "Run:  apt-get install gcc libc6-dev"
)


class Machine(msgspec.Struct, frozen=True):
    """Megabytes of memory, and seconds until the plug is pulled."""

    memory: int = 1024
    seconds: float = 600.0


class NotInstalled(Exception):
    """The package is missing."""


def boot(job: Job, machine: Machine) -> int:
    """Run the job to its end; the command's exit code, or one of ours with a word about it."""
    kernel = find_kernel()
    with tempfile.TemporaryDirectory(prefix="kubeproxy-uml-") as name:
        place = Path(name)
        job.write(place)
        with _Run(kernel, _compiled(place), place, machine.memory) as run:
            in_time = run.wait(time.monotonic() + machine.seconds)
        if not in_time:
            _complain(f"The command did not end within {machine.seconds:g} s: killed.")
            return TIMED_OUT
        if not run.result:
            _complain(f"The test kernel did not run the command. It said last:\n{run.tail()}")
            return NOT_RUN
        return int(run.result)


def find_kernel() -> str:
    """The kernel's path."""
    found = shutil.which(KERNEL)
    if found is None or not MODULES.is_dir():
        raise NotInstalled(_ADVICE.format(what=MODULES if found else KERNEL))
    return found


def _compiled(place: Path) -> Path:
    """What is loaded into the kernel's process."""
    library = place / "registers.so"
    command = ["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(REGISTERS)]
    try:
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    except FileNotFoundError as error:
        raise NotInstalled(_NO_COMPILER.format(why="there is no cc")) from error
    except subprocess.CalledProcessError as error:
        why = error.stderr.decode(errors="replace").strip()
        raise NotInstalled(_NO_COMPILER.format(why=f"cc says:\n{why}\n")) from error
    return library


def arguments(place: Path, memory: int, lines: list[int]) -> list[str]:
    """The kernel's command line: its console is line 0, the serial lines follow."""
    console, *serial = lines
    return [
        f"mem={memory}M",
        f"uml_dir={place}",
        "umid=kernel",
        "con=null",
        f"con0=null,fd:{console}",
        "ssl=null",
        *(f"ssl{number}=null,fd:{fd}" for number, fd in enumerate(serial)),
        "rootfstype=hostfs",
        "rootflags=/",
        "ro",
        f"PYTHONPATH={TESTS}",
        f"init={sys.executable}",
        "--",
        "-m",
        "uml.init",
        str(place),
    ]


class _Run:
    """The kernel's process and what comes out of it, until the context ends."""

    def __init__(self, kernel: str, library: Path, place: Path, memory: int) -> None:
        self._said = dict.fromkeys(("console", "result"), b"")
        outlets = (self._keep("console"), _pass_on(1), _pass_on(2), self._keep("result"))
        self._selector = selectors.DefaultSelector()
        writers = []
        for outlet in outlets:
            reader, writer = os.pipe()
            self._selector.register(reader, selectors.EVENT_READ, outlet)
            writers.append(writer)
        self._process = subprocess.Popen(
            [kernel, *arguments(place, memory, writers)],
            env={**os.environ, "LD_PRELOAD": str(library)},
            stdin=subprocess.DEVNULL,
            stdout=writers[0],
            stderr=writers[0],
            pass_fds=writers,
            start_new_session=True,
            preexec_fn=lambda: die_with_parent(signal.SIGKILL),  # noqa: PLW1509  # no threads here
        )
        for writer in writers:
            os.close(writer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill whatever still runs: the guest's processes are processes here, of one group."""
        group = self._process.pid
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
        self._process.wait()
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-group, 0)
        for key in list(self._selector.get_map().values()):
            os.close(key.fd)
        self._selector.close()

    @property
    def result(self) -> bytes:
        """The exit code of the command, as it was reported; empty when it was not."""
        return self._said["result"]

    def tail(self) -> str:
        """The end of what the kernel said, up to its panic if there was one."""
        return last_words(self._said["console"].decode(errors="replace"))

    def wait(self, deadline: float) -> bool:
        """Pass on what is said until all is said; whether that was before the deadline."""
        while self._selector.get_map():
            events = self._selector.select(max(0.0, deadline - time.monotonic()))
            if not events:
                return False
            for key, _ in events:
                data = os.read(key.fd, 65536)
                key.data(data)
                if not data:
                    self._selector.unregister(key.fd)
                    os.close(key.fd)
        return True

    def _keep(self, name: str) -> Callable[[bytes], None]:
        def keep(data: bytes) -> None:
            self._said[name] = (self._said[name] + data)[-_KEPT:]

        return keep


def last_words(said: str) -> str:
    """The last lines; after a panic there are only addresses of code."""
    lines = [line for line in said.splitlines() if line.strip()]
    panic = next((n for n, line in enumerate(lines, 1) if "Kernel panic" in line), len(lines))
    return "\n".join(lines[max(0, panic - _TAIL) : panic])


def _pass_on(descriptor: int) -> Callable[[bytes], None]:
    def pass_on(data: bytes) -> None:
        while data:
            data = data[os.write(descriptor, data) :]

    return pass_on


def _complain(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201  # a program's own words
