"""The first process of an emulated machine: runs the steps of the job, and switches off.

Each step is a process of its own, with a time limit: one that hangs or dies takes no other with
it. Its results are passed on to the serial line as they come, and all else to the console. What
the steps import is imported once, here: they are forks of this process.
"""

import contextlib
import ctypes
import importlib
import os
import re
import signal
import subprocess
import sys
import termios
import threading
import time
import traceback
import tty
from collections import deque
from pathlib import Path

import msgspec

from kernels.job import FILE, Job, Step
from kernels.results import Line, State, parse, render
from lab.enter import VARIABLE, network_name
from lab.namespaces import mount

RESULTS = Path("/dev/ttyS1")
_SYSTEM = "/usr/sbin:/usr/bin:/sbin:/bin"
_POWER_OFF = 0x4321FEDC
_TAIL = 8
_TEMPORARY = "/dev/tmp"
_MOUNTS = (
    ("proc", "/proc", "proc"),
    ("sys", "/sys", "sysfs"),
    ("pts", "/dev/pts", "devpts"),
    ("shm", "/dev/shm", "tmpfs"),  # the kernel's own name
    ("tmp", _TEMPORARY, "tmpfs"),  # the tree itself may lie in /tmp
)


def main() -> None:
    """Run the job, whatever happens; then switch off."""
    line = os.open(RESULTS, os.O_WRONLY | os.O_NOCTTY)
    try:
        tty.setraw(line)
        _prepare()
        job = msgspec.json.decode(Path("/run/job", FILE).read_bytes(), type=Job)
        _say(line, Line(release=os.uname().release, versions=_versions()))
        for step in job.steps:
            with contextlib.suppress(Exception):  # it will say itself that it cannot be imported
                importlib.import_module(step.module)
        for step in job.steps:
            _run(line, step)
        _say(line, Line(done=True))
    except BaseException:  # noqa: BLE001  # the first process has no caller
        traceback.print_exc()
    finally:
        termios.tcdrain(line)
        os.sync()
        ctypes.CDLL(None).reboot(_POWER_OFF)


def _prepare() -> None:
    for source, target, kind in _MOUNTS:
        Path(target).mkdir(exist_ok=True)
        mount(source, Path(target), kind)
    os.environ["PATH"] = _SYSTEM
    os.environ["HOME"] = "/root"
    os.environ["TMPDIR"] = _TEMPORARY
    Path("/proc/sys/kernel/hostname").write_text("kestrel")
    Path("/proc/sys/kernel/printk").write_text("4")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    os.environ[VARIABLE] = network_name()


def _versions() -> dict[str, str]:
    """Those of the programs that the modes use."""
    found = {}
    for program in ("nft", "iptables", "ipset"):
        done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
        number = re.search(r"v(\d[\w.]*)", done.stdout)
        found[program] = number[1] if number else "unknown"
    return found


def _say(line: int, words: Line) -> None:
    data = f"{render(words)}\n".encode()
    while data:
        data = data[os.write(line, data) :]


def _run(line: int, step: Step) -> None:
    """Run a step to its end; a part that it leaves open has failed."""
    missing = dict.fromkeys(step.parts)
    tail: deque[str] = deque(maxlen=_TAIL)
    started = time.monotonic()
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        _be(step, writing)
    os.close(writing)
    timer = threading.Timer(step.seconds, _kill, [pid])
    timer.start()
    with open(reading, errors="replace") as said:  # noqa: PTH123  # it is a descriptor
        for text in said:
            words = parse(text.strip())
            if words is None:
                tail.extend(filter(None, [text.rstrip()]))
                print(text, end="", flush=True)  # noqa: T201  # to the console
                continue
            _say(line, words)
            if words.state is not None and not words.check:
                missing.pop(words.part, None)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    timer.cancel()
    timer.join()  # the next fork finds no thread
    seconds = round(time.monotonic() - started, 1)
    for part in missing:
        why = f"it ended with {code} after {seconds} s: {' | '.join(tail)}"
        _say(line, Line(part=part, state=State.FAILED, detail=why))


def _be(step: Step, output: int) -> None:
    """Run a step in a process of its own; does not return."""
    code = 1
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        importlib.import_module(step.module).main(step.arguments)
        code = 0
    except BaseException:  # noqa: BLE001  # a process of its own has no caller
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
