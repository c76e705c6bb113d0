"""One run of the emulator for several kernels: builds, boots, and collects what they say."""

import asyncio
import contextlib
import fcntl
import os
import resource
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from kernels.boot import Machine, arguments, boot, job_archive, last_words
from kernels.debian import NotAvailable
from kernels.image import TREE, Disk, Kernel, build_disk, build_kernel
from kernels.job import FILE, Job
from kernels.results import NOT_REACHED, Line, Run, State, cell, parse, render
from kernels.tools import Toolbox

INTERRUPTED = 130
"""The exit code after Ctrl-C."""


def show(text: str) -> None:
    """Say it to whoever runs this."""
    print(text, flush=True)  # noqa: T201  # a program's own words


class Session:
    """Where things are, what all machines share, and what is known of each kernel so far.

    `files` are further ones that the guests find beside their job.
    """

    def __init__(
        self, cache: Path, place: Path, job: Job, machine: Machine, files: Mapping[str, bytes]
    ) -> None:
        self._cache = cache
        self._place = place
        self._job = job
        self._machine = machine
        self._files = {**_start(job), **files}
        self.tools = Toolbox(cache)
        self._started = time.monotonic()
        self._building = asyncio.Lock()
        self._runs: dict[str, Run] = {}

    def run_all(self, names: Sequence[str], at_once: int) -> list[Run]:
        """Run every kernel, so many at once; they begin in the order of their names.

        After Ctrl-C: what is known by then, and the runs say that they were interrupted.
        """
        for name in names:
            self._runs[name] = Run(name, asked=self._job.parts, missing=NOT_REACHED)
        try:
            asyncio.run(self._run_all(at_once))
        except KeyboardInterrupt:
            show("interrupted: the machines are ended")
            self._runs = {
                name: msgspec.structs.replace(run, interrupted=True)
                for name, run in self._runs.items()
            }
        return list(self._runs.values())

    async def _run_all(self, at_once: int) -> None:
        slots = asyncio.Semaphore(at_once)
        disk = await asyncio.to_thread(build_disk, self._cache, self.tools)
        async with asyncio.TaskGroup() as tasks:
            for name in self._runs:
                tasks.create_task(self._one(name, disk, slots))

    async def _one(self, name: str, disk: Disk, slots: asyncio.Semaphore) -> None:
        async with slots:
            try:
                async with self._building:
                    kernel = await asyncio.to_thread(
                        build_kernel, name, self._cache, self.tools, disk.busybox
                    )
            except NotAvailable as error:
                self._say(name, f"not run: {error}")
                self._change(name, missing=f"it cannot be had: {error}")
                return
            self._say(name, f"boots {kernel.version}")
            await self._boot(kernel, disk)
            run = self._runs[name]
            self._say(name, f"{run.state.value} after {run.seconds:.0f} s")

    async def _boot(self, kernel: Kernel, disk: Disk) -> None:
        """Boot a kernel, and collect what it has to say."""
        name = kernel.name
        place = self._place / name
        place.mkdir()
        console = place / "console"
        initrd = place / "initrd"
        initrd.write_bytes(kernel.archive.read_bytes() + job_archive(self._files))
        command = arguments(kernel, disk.image, initrd, console, self._machine.memory)
        self._change(name, version=kernel.version, missing="")
        started = time.monotonic()

        def take(text: str, processor: float) -> None:
            line = parse(text)
            if line is not None:
                before = self._runs[name]
                self._change(
                    name,
                    lines=(*before.lines, line),
                    seconds=time.monotonic() - started,
                    processor=max(before.processor, processor),
                )
                self._progress(self._runs[name], line)

        trouble = await boot([*self.tools.emulator(), *command], self._machine.seconds, take)
        said = console.read_text(errors="replace") if console.exists() else ""
        lines = self._runs[name].lines
        logs = self._cache / "logs"
        logs.mkdir(exist_ok=True)
        (logs / f"{name}.log").write_text(said)
        (logs / f"{name}.results").write_text("".join(f"{render(line)}\n" for line in lines))
        if not trouble and not any(line.done for line in lines):
            trouble = "it stopped on the way; the console ends with: " + last_words(said)
        self._change(name, trouble=trouble, seconds=time.monotonic() - started, console=said)

    def _change(self, name: str, **changes: object) -> None:
        self._runs[name] = msgspec.structs.replace(self._runs[name], **changes)

    def _say(self, name: str, text: str) -> None:
        """A line of progress."""
        show(f"{time.monotonic() - self._started:5.0f} s  {name:20} {text}")

    def _progress(self, run: Run, line: Line) -> None:
        used = f"{run.processor:.0f} s of processor time so far"
        if line.release:
            self._say(run.name, f"Linux {line.release} is up, {used}")
        elif line.check and line.state is State.FAILED:
            self._say(run.name, f"{line.part}: FAILED {line.detail}")
        elif line.part and not line.check and line.state is not None:
            self._say(run.name, f"{line.part}: {cell(run, line.part)}, {used}")


def _start(job: Job) -> dict[str, bytes]:
    """The job, and the script that runs it."""
    tests = TREE / "tests"
    start = "\n".join(
        (
            f"cd {shlex.quote(str(TREE))}",
            f"export PYTHONPATH={shlex.quote(f'{tests}:{TREE}')} PYTHONUNBUFFERED=1",
            f"exec {shlex.quote(sys.executable)} -m kernels.guest",
        )
    )
    return {"start": f"{start}\n".encode(), FILE: msgspec.json.encode(job)}


@contextlib.contextmanager
def session(
    cache: Path, job: Job, machine: Machine, files: Mapping[str, bytes] | None = None
) -> Iterator[Session]:
    """A session with that cache to itself; afterwards only the cache is left."""
    with _locked(cache):
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
        for left in cache.glob("run-*"):  # of one that was killed
            shutil.rmtree(left)
        place = Path(tempfile.mkdtemp(prefix="run-", dir=cache))
        try:
            yield Session(cache, place, job, machine, files or {})
        finally:
            shutil.rmtree(place)


@contextlib.contextmanager
def _locked(cache: Path) -> Iterator[None]:
    """Inside, no other process builds in that cache."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock = (cache / "lock").open("w")
    except OSError as error:
        raise NotAvailable(
            f"{error.filename}: {error.strerror}. Name a directory of yours that can be written"
            " to, with --cache or KERNELS_CACHE"
        ) from error
    with lock as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            show(f"another run uses {cache}: waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def default_cache() -> Path:
    """Where programs keep what they can fetch again."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "kubeproxy-kernels"


def processor_seconds() -> float:
    """What all machines and builds have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
