"""Boots a kernel in an emulator, and collects what comes out of its serial lines.

The processor is emulated, so neither root nor hardware support is needed. The guest's clock counts
instructions: on a busy machine the guest gets slower, and its time with it, so that no deadline
passes there for lack of a turn here.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from kernels.cpio import Entry, archive
from kernels.image import Kernel
from lab.namespaces import die_with_parent

RESULTS = "/dev/ttyS1"
"""Where the guest writes its results; the console is the first line."""
_TAIL = 12
_COMMAND_LINE = (
    "console=ttyS0 quiet panic=-1 oops=panic mitigations=off nokaslr random.trust_cpu=on "
    "audit=0 selinux=0 apparmor=0 tsc=reliable no_timer_check cryptomgr.notests"
)


class Machine(msgspec.Struct, frozen=True):
    """Megabytes of memory, and seconds until the plug is pulled."""

    memory: int = 1024
    seconds: float = 900.0


def arguments(kernel: Kernel, disk: Path, initrd: Path, console: Path, memory: int) -> list[str]:
    """What the emulator is started with."""
    disks = [
        f"file={disk},format=raw,if=virtio,snapshot=on",
        f"file={kernel.modules},format=raw,if=virtio,snapshot=on",
    ]
    return [
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-machine", "pc", "-accel", "tcg", "-cpu", "qemu64,+rdrand", "-smp", "1"),
        *("-icount", "shift=0"),
        *("-m", str(memory)),
        *("-kernel", str(kernel.image), "-initrd", str(initrd), "-append", _COMMAND_LINE),
        *(word for each in disks for word in ("-drive", each)),
        *("-serial", f"file:{console}", "-serial", "stdio"),
    ]


def job_archive(job: Mapping[str, bytes]) -> bytes:
    """The files that the guest finds in /run/job, as an archive that follows the kernel's own."""
    return archive([Entry("job"), *(Entry(f"job/{name}", data) for name, data in job.items())])


async def boot(command: Sequence[str], seconds: float, take: Callable[[str, float], None]) -> str:
    """Run the emulator until it ends; why it had to be ended, or "".

    Each line is handed over as it comes, with the processor seconds that the emulator has used.
    Whatever happens, the process is gone afterwards.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is ours to handle
        limit=1 << 22,
        preexec_fn=lambda: die_with_parent(signal.SIGKILL),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    complaints = asyncio.create_task(process.stderr.read())
    try:
        async with asyncio.timeout(seconds):
            async for line in process.stdout:
                take(line.decode(errors="replace").strip(), _processor_seconds(process.pid))
            code = await process.wait()
            words = (await complaints).decode(errors="replace").strip().splitlines()
    except TimeoutError:
        return f"it did not come to its end within {seconds:g} s"
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await complaints
    return f"the emulator ended with {code}: {' '.join(words[-1:])}" if code else ""


def _processor_seconds(pid: int) -> float:
    """User and system time; 0 of a process that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def last_words(console: str) -> str:
    """The end of what the kernel printed, up to its panic if there was one."""
    lines = [line.strip() for line in console.splitlines() if line.strip()]
    panic = next((n for n, line in enumerate(lines, 1) if "Kernel panic" in line), len(lines))
    return "\n".join(lines[max(0, panic - _TAIL) : panic])
