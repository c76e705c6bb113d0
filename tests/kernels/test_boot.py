"""Archives, modules, and the emulator as a process: what goes in, and that nothing stays."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.boot import arguments, boot, job_archive, last_words
from kernels.cpio import Entry, archive
from kernels.image import Kernel
from kernels.job import STEPS, Version, steps_for, version_of
from kernels.modules import in_order, name_of, parse_dependencies, unsigned, wanted
from kernels.results import PARTS

DEPENDENCIES = """\
kernel/fs/ext4/ext4.ko: kernel/fs/jbd2/jbd2.ko kernel/lib/crc16.ko
kernel/fs/jbd2/jbd2.ko:
kernel/lib/crc16.ko:
kernel/drivers/virtio/virtio-pci.ko: kernel/drivers/virtio/virtio.ko
kernel/drivers/virtio/virtio.ko:
"""


def test_modules_come_after_those_that_they_need() -> None:
    files = parse_dependencies(DEPENDENCIES)
    ordered = [name_of(file) for file in in_order(["virtio_pci", "built_in", "ext4"], files)]
    assert ordered == ["virtio", "virtio_pci", "jbd2", "crc16", "ext4"]


def test_modules_are_found_in_old_and_in_new_packages() -> None:
    patterns = wanted()
    assert {"./boot/vmlinuz-*", "./usr/lib/modules/*/vmlinuz"} <= set(patterns)
    assert {"./lib/modules/*/kernel/net/*", "./usr/lib/modules/*/kernel/net/*"} <= set(patterns)


def test_a_module_loses_its_signature_and_nothing_else() -> None:
    signature = b"pkcs7" * 20
    end = bytes(8) + len(signature).to_bytes(4, "big") + b"~Module signature appended~\n"
    assert unsigned(b"\x7fELF" + signature + end) == b"\x7fELF"
    assert unsigned(b"\x7fELF") == b"\x7fELF"


def test_an_archive_is_one_that_the_kernel_reads() -> None:
    """Head, name and content are padded to four bytes, the whole to a block."""
    data = archive([Entry("d"), Entry("d/f", b"content"), Entry("c", device=(5, 1))])
    assert data.startswith(b"070701")
    assert len(data) % 512 == 0
    heads = data.count(b"070701")
    assert heads == 4
    at = data.index(b"d/f\0") - 110
    fields = [int(data[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
    assert (fields[1], fields[6], fields[11]) == (0o100755, len(b"content"), len(b"d/f\0"))
    start = at + 110 + 4 + (-(110 + 4) % 4)
    assert data[start : start + 7] == b"content"


def test_the_job_lies_in_a_directory_of_its_own() -> None:
    data = job_archive({"start": b"exec true\n"})
    assert b"job\0" in data
    assert b"job/start\0" in data


def test_disks_are_not_written_to_and_the_clock_counts_instructions(tmp_path: Path) -> None:
    kernel = Kernel("sid", "7", tmp_path)
    words = arguments(kernel, tmp_path / "disk", tmp_path / "initrd", tmp_path / "console", 256)
    drives = [word for word in words if word.startswith("file=")]
    assert len(drives) == 2
    assert all(drive.endswith("snapshot=on") for drive in drives)
    assert words[words.index("-icount") + 1] == "shift=0"
    assert "tcg" in words


def emulator(script: str) -> list[str]:
    """Something that behaves like an emulator."""
    return [sys.executable, "-c", script]


def ignored(_line: str, _seconds: float) -> None:
    """What it prints is of no interest."""


async def test_lines_come_as_they_are_written_with_the_processor_time_so_far() -> None:
    lines: dict[str, float] = {}
    script = """
import time
print('one', flush=True)
while time.process_time() < 0.5: pass
print('two', flush=True)
time.sleep(1)
"""
    assert await boot(emulator(script), 60, lines.__setitem__) == ""
    assert list(lines) == ["one", "two"]
    assert lines["one"] < 0.5 <= lines["two"] + 0.02  # it is counted in hundredths


async def test_an_emulator_that_fails_is_quoted() -> None:
    script = "import sys; sys.exit('no such machine')"
    assert (
        await boot(emulator(script), 60, ignored) == "the emulator ended with 1: no such machine"
    )


HANGS = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"


async def test_the_plug_is_pulled_after_the_time_limit() -> None:
    lines: dict[str, float] = {}
    trouble = await boot(emulator(HANGS), 1, lines.__setitem__)
    assert trouble == "it did not come to its end within 1 s"
    assert not [pid for pid in lines if is_alive(int(pid))]


async def test_nothing_stays_when_it_is_interrupted() -> None:
    begun = asyncio.Event()
    lines: list[str] = []

    def take(line: str, _seconds: float) -> None:
        lines.append(line)
        begun.set()

    running = asyncio.create_task(boot(emulator(HANGS), 600, take))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not is_alive(int(lines[0]))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("console", "expected"),
    [
        pytest.param("a\n\nb\n", "a\nb", id="all-of-a-few"),
        pytest.param(
            "a\nKernel panic - not syncing\ntrace", "a\nKernel panic - not syncing", id="p"
        ),
        pytest.param("\n".join(map(str, range(20))), "\n".join(map(str, range(8, 20))), id="end"),
    ],
)
def test_the_end_of_the_console_is_quoted(console: str, expected: str) -> None:
    assert expected == last_words(console)


@pytest.mark.parametrize(
    ("release", "expected"),
    [("5.10.0-46-amd64", (5, 10)), ("6.12.95+deb12-amd64", (6, 12)), ("7.2.12", (7, 2))],
)
def test_versions_are_numbers(release: str, expected: tuple[int, int]) -> None:
    assert Version(*expected) == version_of(release)


def test_every_part_has_a_step() -> None:
    assert {part for step in STEPS.values() for part in step.parts} == set(PARTS)
    (step,) = steps_for(["repair"])
    assert step.parts == ("traffic", "repair", "restart", "take-over")
    assert "--all" in steps_for(["lab"], whole_lab=True)[0].arguments


def test_an_unknown_part_is_rejected() -> None:
    tests = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "kernels", "--parts", "weather"],
        env={**os.environ, "PYTHONPATH": str(tests)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "there is no part weather" in done.stderr
