"""The first process of the test kernel: sets the stage, runs the command, switches off.

The root is the host's file system, read-only. What a run may write is the command's directory,
which is the host's own, and what lies in memory: /run, /dev, and temporary files.
Modules are loaded by the kernel itself when they are needed, as on any node.
"""

import ctypes
import os
import shutil
import subprocess
import sys
import termios
import threading
import tty
from collections.abc import Mapping
from pathlib import Path

from lab.enter import VARIABLE, network_name
from lab.namespaces import mount
from uml.job import ERRORS, OUTPUT, RESULT, Job, read_job

MODULES = Path("/usr/lib/uml/modules")
_OURS = Path("/dev/uml")  # the lab hides /run
_PROGRAMS = _OURS / "programs"
_TEMPORARY = _OURS / "tmp"
_SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MODPROBE = f'#!/bin/sh\nexec /sbin/modprobe -d {_OURS}/root "$@"\n'
_IPTABLES = [
    name + verb for name in ("iptables", "ip6tables") for verb in ("", "-save", "-restore")
]
_POWER_OFF = 0x4321FEDC
_LAST_WORDS = 2.0
"""Seconds for output of processes that outlive the command."""


def main(place: Path) -> None:
    """Run the job that lies there."""
    lines = [_raw(line) for line in (OUTPUT, ERRORS, RESULT)]
    try:
        job = read_job(place)
        prepare(Path(job.directory))
        code = run(job, *lines[:2])
        os.write(lines[2], str(code).encode())
    except OSError as error:
        os.write(lines[1], f"the test kernel could not set the stage: {error}\n".encode())
    finally:
        for line in lines:
            termios.tcdrain(line)
        os.sync()
        ctypes.CDLL(None).reboot(_POWER_OFF)


def _raw(line: str) -> int:
    """A serial line that changes no byte."""
    opened = os.open(line, os.O_WRONLY | os.O_NOCTTY)
    tty.setraw(opened)
    return opened


def prepare(directory: Path) -> None:
    """Mount what is missing, and lay out the programs that differ here."""
    mount("proc", Path("/proc"), "proc")
    mount("sys", Path("/sys"), "sysfs")
    mount("run", Path("/run"), "tmpfs")
    for name, kind in (("pts", "devpts"), ("shm", "tmpfs"), (_OURS.name, "tmpfs")):
        Path("/dev", name).mkdir(exist_ok=True)
        mount(name, Path("/dev", name), kind)
    mount("work", directory, "hostfs", data=str(directory))
    for made in (_PROGRAMS, _TEMPORARY, _OURS / "root/lib"):
        made.mkdir(parents=True)
    (_OURS / "root/lib/modules").symlink_to(MODULES)
    modprobe = _PROGRAMS / "modprobe"
    modprobe.write_text(_MODPROBE)
    modprobe.chmod(0o755)
    Path("/proc/sys/kernel/modprobe").write_text(str(modprobe))
    legacy = shutil.which("xtables-legacy-multi", path=_SYSTEM)
    for name in _IPTABLES if legacy else ():
        (_PROGRAMS / name).symlink_to(str(legacy))
    # Nothing asks for IPv6 by name before there are network namespaces without it.
    for command in ([str(modprobe), "ipv6"], ["ip", "link", "set", "lo", "up"]):
        subprocess.run(command, check=True, env={"PATH": _SYSTEM})


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """The caller's, with our programs first, files in memory, and the lab's door open."""
    path = ":".join((str(_PROGRAMS), given.get("PATH", ""), _SYSTEM))
    return {**given, "PATH": path, "TMPDIR": str(_TEMPORARY), VARIABLE: network_name()}


def run(job: Job, output: int, errors: int) -> int:
    """Run the command to its end, with its words passed on as they come; its exit code.

    It writes to pipes: a program that sees a terminal writes otherwise.
    """
    try:
        process = subprocess.Popen(
            job.command,
            cwd=job.directory,
            env=environment(job.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        os.write(errors, f"{job.command[0]}: {error}\n".encode())
        return 127
    assert process.stdout is not None
    assert process.stderr is not None
    ways = ((process.stdout.fileno(), output), (process.stderr.fileno(), errors))
    relays = [threading.Thread(target=_relay, args=way, daemon=True) for way in ways]
    for relay in relays:
        relay.start()
    code = _reap_until(process.pid)
    for relay in relays:
        relay.join(_LAST_WORDS)
    return code if code >= 0 else 128 - code


def _relay(source: int, target: int) -> None:
    while data := os.read(source, 65536):
        while data:
            data = data[os.write(target, data) :]


def _reap_until(wanted: int) -> int:
    """Bury every process that ends, as the first process must, until that one does."""
    while True:
        pid, status = os.wait()
        if pid == wanted:
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
