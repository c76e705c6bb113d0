import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from kubeproxy.base import logstream
from kubeproxy.base.logstream import LogStream

PATIENCE = 20.0


class Rig:
    """A stream into a pipe that is not read until `read` is called."""

    def __init__(self) -> None:
        self._out, self.into = os.pipe()
        fcntl.fcntl(self.into, fcntl.F_SETPIPE_SZ, 4096)
        self.stream = LogStream(self.into, "utf-8", lambda count: f"lost {count}\n")

    def read(self) -> list[str]:
        """All lines, after which none can be written."""
        read: list[bytes] = []

        def collect() -> None:
            while got := os.read(self._out, 1 << 16):
                read.append(got)

        reader = threading.Thread(target=collect)
        reader.start()
        self.stream.settle(PATIENCE)
        os.close(self.into)
        reader.join(PATIENCE)
        return b"".join(read).decode().splitlines()

    def hang_up(self) -> None:
        os.close(self._out)


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    for descriptor in (made._out, made.into):
        if os.path.exists(f"/proc/self/fd/{descriptor}"):  # noqa: PTH110  # no path of ours
            os.close(descriptor)


def lines(*numbers: int) -> list[str]:
    return [f"line {number:04d} " + "." * 89 for number in numbers]


def test_what_is_read_is_written_at_once(rig: Rig) -> None:
    assert rig.stream.write("said\n") == 5
    assert os.read(rig._out, 100) == b"said\n"


def test_what_is_not_read_is_kept_in_order_and_no_writer_waits(rig: Rig) -> None:
    for line in lines(*range(1000)):  # 100 KB into a pipe of 4 KiB
        rig.stream.write(line + "\n")
    assert lines(*range(1000)) == rig.read()


def test_a_line_longer_than_the_pipe_arrives_whole(rig: Rig) -> None:
    long = "x" * 20_000
    rig.stream.write(long + "\n")
    rig.stream.write("next\n")
    assert [long, "next"] == rig.read()


def test_of_too_much_the_first_is_kept_and_the_loss_is_counted_at_its_place(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logstream, "KEPT_BYTES", 10_000)
    for line in lines(*range(200)):
        rig.stream.write(line + "\n")
    *kept, last = rig.read()
    assert lines(*range(len(kept))) == kept
    assert 100 <= len(kept) < 200
    assert f"lost {200 - len(kept)}" == last


def test_what_comes_after_a_loss_comes_after_its_line(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logstream, "KEPT_BYTES", 1000)
    for line in lines(*range(100)):
        rig.stream.write(line + "\n")
    monkeypatch.setattr(logstream, "KEPT_BYTES", 10_000)
    rig.stream.write("later\n")
    read = rig.read()
    assert read[-2:] == [f"lost {100 - len(read) + 2}", "later"]


def test_a_reader_that_is_gone_takes_nothing_with_it(rig: Rig) -> None:
    for line in lines(*range(1000)):
        rig.stream.write(line + "\n")
    rig.hang_up()
    rig.stream.settle(PATIENCE)
    assert not rig.stream._waiting
    rig.stream.write("this is lost\n")
    assert not rig.stream._waiting


def test_a_pipe_that_never_blocks_is_waited_for_too(rig: Rig) -> None:
    os.set_blocking(rig.into, False)
    for line in lines(*range(1000)):
        rig.stream.write(line + "\n")
    assert lines(*range(1000)) == rig.read()


def test_what_cannot_be_encoded_is_escaped() -> None:
    out, into = os.pipe()
    LogStream(into, "ascii", str).write("H\xe4llo \udcff\n")
    assert os.read(out, 100) == b"H\\xe4llo \\udcff\n"
    os.close(out)
    os.close(into)


SCRIPT = """
import sys
from kubeproxy.base import klog, logstream
logstream.install(klog.lost_line)
for number in range(5000):
    klog.info("Said", number=number)
print("said all", flush=True)
raise RuntimeError("the end")
"""


def test_a_process_ends_in_time_though_its_last_lines_are_not_read() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"said all\n"
        assert process.wait(60) == 1


def test_all_that_was_logged_comes_out_before_the_end_and_the_traceback_last() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False, timeout=60
    )
    said = done.stderr.splitlines()
    numbers = [int(line.rpartition("=")[2]) for line in said if '"Said"' in line]
    assert numbers == list(range(5000))
    assert said[-1] == "RuntimeError: the end"


def test_streams_without_a_descriptor_stay(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stderr
    logstream.install(str)
    assert before is sys.stderr
    assert capsys.readouterr().err == ""
