"""The test kernel: what it gets, what comes back, and that nothing stays behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from uml.boot import (
    NOT_RUN,
    TESTS,
    TIMED_OUT,
    Machine,
    NotInstalled,
    arguments,
    boot,
    find_kernel,
    last_words,
)
from uml.init import environment
from uml.job import Job, read_job

slow = pytest.mark.slow


def start(tmp_path: Path, *words: str) -> "subprocess.Popen[str]":
    """The program, with its temporary files where the test can see them."""
    (tmp_path / "work").mkdir()
    (tmp_path / "tmp").mkdir()
    return subprocess.Popen(
        [sys.executable, "-m", "uml", *words],
        cwd=tmp_path / "work",
        env={
            **os.environ,
            "PYTHONPATH": str(TESTS),
            "TMPDIR": str(tmp_path / "tmp"),
            "COLOR": "red",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def leftovers(tmp_path: Path) -> list[str]:
    """Temporary files, and processes with their names."""
    processes = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = process.read_text()
        except OSError:  # it ended
            continue
        if str(tmp_path / "tmp") in text:
            processes.append(text)
    return [*map(str, (tmp_path / "tmp").iterdir()), *processes]


SCRIPT = """
pwd; echo $COLOR; uname -r | cut -c -2; id -u; command -v iptables
echo made > file
touch /etc/kubeproxy-was-here && rm /etc/kubeproxy-was-here
ipvsadm -A -t 10.112.0.1:80 -s mh && ip link add kube-ipvs0 type dummy && echo has ipvs >&2
exit 7
"""


@slow
def test_a_command_runs_and_its_words_and_its_exit_code_come_back(tmp_path: Path) -> None:
    with start(tmp_path, "--seconds", "60", "--", "sh", "-c", SCRIPT) as process:
        said, complained = process.communicate(timeout=90)
    work = str(tmp_path / "work")
    assert [work, "red", "6.", "0", "/dev/uml/programs/iptables"] == said.splitlines()
    readonly, ipvs = complained.splitlines()
    assert readonly.endswith("Read-only file system")
    assert (process.returncode, ipvs) == (7, "has ipvs")
    assert (tmp_path / "work/file").read_text() == "made\n"
    assert leftovers(tmp_path) == []


@slow
def test_the_plug_is_pulled_after_the_time_limit(tmp_path: Path) -> None:
    with start(tmp_path, "--seconds", "1", "--", "true") as process:
        _, complained = process.communicate(timeout=30)
    assert process.returncode == TIMED_OUT
    assert complained == "The command did not end within 1 s: killed.\n"
    assert leftovers(tmp_path) == []


@slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_nothing_stays_when_it_is_interrupted(tmp_path: Path, number: signal.Signals) -> None:
    with start(tmp_path, "--", "sh", "-c", "echo up; sleep 100") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(number)
        process.communicate(timeout=30)
    assert 128 + number == process.returncode
    assert leftovers(tmp_path) == []


def test_a_kernel_that_does_not_boot_is_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = tmp_path / "linux.uml"
    kernel.write_text("#!/bin/sh\necho Kernel panic: no memory\n")
    kernel.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr("uml.boot.MODULES", tmp_path)
    assert boot(Job(("true",), "/", {}), Machine()) == NOT_RUN
    assert capsys.readouterr().err == (
        "The test kernel did not run the command. It said last:\nKernel panic: no memory\n"
    )


@pytest.mark.parametrize("present", ["", "linux.uml"], ids=["nothing", "no-modules"])
def test_a_missing_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, present: str
) -> None:
    if present:
        (tmp_path / present).touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("uml.boot.MODULES", tmp_path / "modules")
    with pytest.raises(NotInstalled, match=r"Run:  apt-get install user-mode-linux$"):
        find_kernel()


def test_without_the_package_the_program_ends_with_a_sentence(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "uml", "--", "true"],
        env={"PYTHONPATH": str(TESTS), "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == (
        "The test kernel is not installed: there is no linux.uml. "
        "Run:  apt-get install user-mode-linux\n"
    )


@pytest.mark.parametrize(
    ("compiler", "reason"),
    [
        pytest.param(None, r"there is no cc\.", id="none"),
        pytest.param("echo no dlfcn.h >&2; exit 1", r"cc says:\nno dlfcn\.h\n\.", id="fails"),
    ],
)
def test_that_a_compiler_is_needed_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: str | None, reason: str
) -> None:
    for name, script in (("linux.uml", "exit 0"), ("cc", compiler)):
        if script is not None:
            (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("uml.boot.MODULES", tmp_path)
    with pytest.raises(NotInstalled, match=reason + r" Run:  apt-get install gcc libc6-dev$"):
        boot(Job(("true",), "/", {}), Machine())


def test_a_job_is_read_as_it_was_written(tmp_path: Path) -> None:
    job = Job(("echo", "a b", "ä"), "/somewhere", {"KEY": "a=b\n"})
    job.write(tmp_path)
    assert job == read_job(tmp_path)


def test_the_environment_is_the_callers_but_for_three() -> None:
    found = environment({"PATH": "/mine", "TMPDIR": "/tmp", "LANG": "C"})
    assert found["PATH"].startswith("/dev/uml/programs:/mine:")
    assert (found["TMPDIR"], found["LANG"]) == ("/dev/uml/tmp", "C")
    assert found["KUBEPROXY_LAB"] == str(Path("/proc/self/ns/net").readlink())


def test_each_kernel_has_a_place_of_its_own(tmp_path: Path) -> None:
    given = arguments(tmp_path, 256, [5, 6, 7, 8])
    assert {"mem=256M", f"uml_dir={tmp_path}", "con0=null,fd:5", "ssl2=null,fd:8"} <= set(given)
    assert given[-3:] == ["-m", "uml.init", str(tmp_path)]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param("one\n\ntwo\n", "one\ntwo", id="all-that-is-not-empty"),
        pytest.param("why\nKernel panic - no\nStack:\n 60", "why\nKernel panic - no", id="panic"),
        pytest.param("\n".join(map(str, range(99))), "\n".join(map(str, range(69, 99))), id="end"),
    ],
)
def test_what_is_quoted_of_the_console(said: str, expected: str) -> None:
    assert expected == last_words(said)
