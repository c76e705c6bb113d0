"""Runs the proxy in stock kernels of Debian: `PYTHONPATH=tests python -m kernels`."""

import argparse
import asyncio
import contextlib
import datetime as dt
import fcntl
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from kernels.boot import Machine, arguments, boot, job_archive, last_words
from kernels.debian import DEFAULT, NotAvailable
from kernels.image import TREE, Disk, Kernel, build_disk, build_kernel
from kernels.job import COMMAND, FILE, Job, step_of, steps_for
from kernels.results import (
    PARTS,
    Line,
    Run,
    State,
    cell,
    columns,
    exit_code,
    page,
    parse,
    placed,
    reasons,
    render,
    summary,
    table,
)
from kernels.tools import Toolbox
from kubeproxy.base.version import VERSION


def show(text: str) -> None:
    """Say it to whoever runs this."""
    print(text, flush=True)  # noqa: T201  # a program's own words


class Session:
    """One run of the program: where things are, and what all machines share."""

    def __init__(self, cache: Path, place: Path, job: Job, machine: Machine) -> None:
        self.cache = cache
        self.place = place
        self.job = job
        self.machine = machine
        self.tools = Toolbox(cache)
        self.started = time.monotonic()

    def say(self, name: str, text: str) -> None:
        """A line of progress."""
        show(f"{time.monotonic() - self.started:5.0f} s  {name:20} {text}")

    async def run(self, kernel: Kernel, disk: Disk) -> Run:
        """Boot a kernel, and collect what it has to say."""
        place = self.place / kernel.name
        place.mkdir()
        console = place / "console"
        initrd = place / "initrd"
        initrd.write_bytes(kernel.archive.read_bytes() + job_archive(_files(self.job)))
        lines: list[Line] = []
        command = arguments(kernel, disk.image, initrd, console, self.machine.memory)
        started = time.monotonic()

        def take(text: str) -> None:
            line = parse(text)
            if line is not None:
                lines.append(line)
                self._progress(Run(kernel.name, lines=tuple(lines)), line)

        trouble = await boot([*self.tools.emulator(), *command], self.machine.seconds, take)
        seconds = time.monotonic() - started
        said = console.read_text(errors="replace") if console.exists() else ""
        logs = self.cache / "logs"
        logs.mkdir(exist_ok=True)
        (logs / f"{kernel.name}.log").write_text(said)
        (logs / f"{kernel.name}.results").write_text("".join(f"{render(x)}\n" for x in lines))
        if not trouble and not any(line.done for line in lines):
            trouble = "it stopped on the way; the console ends with: " + last_words(said)
        return Run(kernel.name, kernel.version, tuple(lines), "", trouble, seconds, said)

    def _progress(self, run: Run, line: Line) -> None:
        name = run.name
        if line.release:
            self.say(name, f"Linux {line.release} is up")
        elif line.check and line.state is State.FAILED:
            self.say(name, f"{line.part}: FAILED {line.detail}")
        elif line.part and not line.check and line.state is not None:
            self.say(name, f"{line.part}: {cell(run, line.part)}")


def _files(job: Job) -> dict[str, bytes]:
    """The job, and the script that runs it."""
    tests = TREE / "tests"
    start = "\n".join(
        (
            f"cd {shlex.quote(str(TREE))}",
            f"export PYTHONPATH={shlex.quote(str(tests))} PYTHONUNBUFFERED=1",
            f"exec {shlex.quote(sys.executable)} -m kernels.guest",
        )
    )
    return {"start": f"{start}\n".encode(), FILE: msgspec.json.encode(job)}


async def run_all(session: Session, names: Sequence[str], at_once: int) -> list[Run]:
    """Run every kernel, so many at once; they begin in the order of their names."""
    slots = asyncio.Semaphore(at_once)
    building = asyncio.Lock()
    disk = await asyncio.to_thread(build_disk, session.cache, session.tools)

    async def one(name: str) -> Run:
        async with slots:
            try:
                async with building:
                    kernel = await asyncio.to_thread(
                        build_kernel, name, session.cache, session.tools, disk.busybox
                    )
            except NotAvailable as error:
                session.say(name, f"not run: {error}")
                return Run(name, missing=f"it cannot be had: {error}")
            session.say(name, f"boots {kernel.version}")
            run = await session.run(kernel, disk)
            session.say(name, f"{run.state.value} after {run.seconds:.0f} s")
            return run

    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(one(name)) for name in names]
    return [task.result() for task in running]


@contextlib.contextmanager
def locked(cache: Path) -> Iterator[None]:
    """Inside, no other process builds in that cache."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as file:
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


def parsed(given: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser("python -m kernels", description=__doc__)
    parser.add_argument("--cache", type=Path, default=default_cache(), help="(%(default)s)")
    parser.add_argument("--kernels", default=",".join(DEFAULT), help="suites (%(default)s)")
    parser.add_argument("--parts", default=",".join(PARTS), help="of the table (%(default)s)")
    parser.add_argument("--at-once", type=int, default=2, help="machines (%(default)s)")
    parser.add_argument("--seconds", type=float, default=900.0, help="for each (%(default)s)")
    parser.add_argument("--memory", type=int, default=1024, help="megabytes (%(default)s)")
    parser.add_argument("--whole-lab", action="store_true", help="all tests of the lab: hours")
    parser.add_argument("--page", type=Path, help="a document to write what was measured into")
    parser.add_argument("command", nargs="*", help="to run in each instead, after --")
    arguments = parser.parse_args(given)
    unknown = set(arguments.parts.split(",")) - set(PARTS)
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    return arguments


def versions(runs: Sequence[Run], tools: Toolbox) -> dict[str, str]:
    """What the results depend on besides the kernels."""
    printed = subprocess.run(
        [*tools.emulator(), "--version"], capture_output=True, text=True, check=True
    ).stdout
    number = re.search(r"version (\S+)", printed)
    guest = next((run.versions for run in runs if run.versions), {})
    python = ".".join(map(str, sys.version_info[:3]))
    emulator = number[1] if number else "unknown"
    return {"kubeproxy": VERSION, "Python": python, "QEMU": emulator, **guest}


def processor_seconds() -> float:
    """What all machines and builds have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(given: Sequence[str]) -> int:
    """Run, print the table, and end with 0 only if all that ran passed."""
    arguments = parsed(given)
    steps = steps_for(arguments.parts.split(","), whole_lab=arguments.whole_lab)
    if arguments.command:
        steps = (step_of(arguments.command, arguments.seconds),)
    machine = Machine(arguments.memory, arguments.seconds)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    with locked(arguments.cache):
        for left in arguments.cache.glob("run-*"):  # of one that was killed
            shutil.rmtree(left)
        place = Path(tempfile.mkdtemp(prefix="run-", dir=arguments.cache))
        try:
            session = Session(arguments.cache, place, Job(steps), machine)
            names = arguments.kernels.split(",")
            runs = asyncio.run(run_all(session, names, arguments.at_once))
        except NotAvailable as error:
            show(f"No kernel could be run: {error}")
            return 1
        except KeyboardInterrupt:
            return 130
        finally:
            shutil.rmtree(place)
    if arguments.command:
        for run in runs:
            show(f"\n--- {run.name} {run.release} {run.missing or run.trouble}\n{run.console}")
        return 0 if all(cell(run, COMMAND).state is State.PASSED for run in runs) else 1
    show(f"\n{columns(table(runs))}\n")
    for line in reasons(runs):
        show(line)
    show(f"{summary(runs)}; processor time: {processor_seconds():.0f} s")
    if arguments.page:
        date = dt.datetime.now(dt.UTC).date().isoformat()
        measured = page(runs, date, versions(runs, session.tools))
        arguments.page.write_text(placed(arguments.page.read_text(), measured))
    return exit_code(runs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
