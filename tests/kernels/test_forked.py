"""kube-proxy as a fork: what its caller sees is what the program itself would show."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import kernels.forked
from kernels.forked import Fork, Forking, Sparing
from lab.launch import Program, Ran, launched_by, launcher


@pytest.mark.parametrize("arguments", [["--version"], ["diff", "--no-such-flag"]], ids=str)
def test_a_fork_says_what_the_program_says(arguments: list[str]) -> None:
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    expected = Program().tool(arguments, environment)
    assert expected.out + expected.err
    assert expected == Forking().tool(arguments, environment)


def test_a_fork_has_the_environment_that_it_is_given_and_none_of_our_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def tell(_: Sequence[str]) -> int:
        os.write(1, f"{len([*Path('/proc/self/fd').iterdir()])} {dict(os.environ)}\n".encode())
        return 7

    monkeypatch.setattr(kernels.forked, "main", tell)
    with (tmp_path / "ours").open("w"):
        ran = Forking().tool([], {"ONLY": "this"})
    assert ran == Ran(7, "4 {'ONLY': 'this'}\n")  # the usual three, and the one that lists


def test_a_fork_that_breaks_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Sequence[str]) -> int:
        raise RuntimeError("broken")

    monkeypatch.setattr(kernels.forked, "main", fail)
    code, out, err = Forking().tool([], {})
    assert (code, out) == (70, "")
    assert "RuntimeError: broken" in err


def test_a_fork_is_waited_for_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels.forked, "main", lambda _: signal.pause())
    with Path(os.devnull).open("w") as nothing:
        process = Fork([], {}, nothing.fileno(), nothing.fileno())
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    assert process.wait() == process.poll() == -signal.SIGKILL
    process.send_signal(signal.SIGKILL)  # to nobody: it has ended


class Recorded:
    """A way to start it that only writes down what it was asked for."""

    def __init__(self, name: str, asked: list[str]) -> None:
        self._name = name
        self._asked = asked

    def daemon(self, arguments: Sequence[str], _: Mapping[str, str], log: int) -> Fork:
        self._asked.append(f"{self._name} {arguments[0]} {log}")
        return Fork.__new__(Fork)

    def tool(self, arguments: Sequence[str], _: Mapping[str, str]) -> Ran:
        self._asked.append(f"{self._name} {arguments[0]}")
        return Ran(0, "")


def test_the_first_of_each_is_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(kernels.forked, "Program", lambda: Recorded("program", asked))
    monkeypatch.setattr(kernels.forked, "Forking", lambda: Recorded("fork", asked))
    with launched_by(Sparing()):
        for mode in ("nftables", "nftables", "ipvs"):
            launcher().daemon([f"--proxy-mode={mode}"], {}, 1)
        for arguments in (["diff"], ["diff"], ["--cleanup", "--proxy-mode=ipvs"]):
            launcher().tool(arguments, {})
    assert asked == [
        "program --proxy-mode=nftables 1",
        "fork --proxy-mode=nftables 1",
        "program --proxy-mode=ipvs 1",
        "program diff",
        "fork diff",
        "program --cleanup",
    ]


def test_what_is_started_through_a_command_is_the_program() -> None:
    with launched_by(Forking()):
        assert isinstance(launcher(), Forking)
        assert isinstance(launcher(["setpriv"]), Program)
    assert isinstance(launcher(), Program)
