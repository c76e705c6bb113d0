"""The command line as a whole: which command is meant, and what becomes of what goes wrong."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kubeproxy.app import cli, run
from kubeproxy.base.errors import ApiServerError, KernelError, KubeProxyError, OperatorError
from kubeproxy.config.errors import UsageError
from kubeproxy.tools import explain
from kubeproxy.tools.names import TOOLS
from terminals import in_terminal
from tools.manifests import SHOP, write

Command = Callable[[Sequence[str]], int]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    """Which command was called with which arguments; both succeed."""
    called: list[tuple[str, list[str]]] = []

    def command(name: str) -> Command:
        def called_with(arguments: Sequence[str]) -> int:
            called.append((name, list(arguments)))
            return 0

        return called_with

    monkeypatch.setattr(explain, "main", command("explain"))
    monkeypatch.setattr(run, "main", command("run"))
    return called


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param([], ("run", []), id="nothing-is-the-daemon"),
        pytest.param(["-v=2"], ("run", ["-v=2"]), id="flags-are-the-daemons"),
        pytest.param(["explain", "--to=a"], ("explain", ["--to=a"]), id="a-subcommand"),
        pytest.param(["-v=2", "explain"], ("run", ["-v=2", "explain"]), id="only-in-front"),
        pytest.param(["kestrel"], ("run", ["kestrel"]), id="no-subcommand"),
        pytest.param(["help"], ("run", ["--help"]), id="help-as-a-word"),
        pytest.param(["help", "explain"], ("explain", ["--help"]), id="help-of-a-subcommand"),
    ],
)
def test_which_command_is_meant(
    calls: list[tuple[str, list[str]]], arguments: list[str], expected: tuple[str, list[str]]
) -> None:
    assert cli.main(arguments) == 0
    assert [expected] == calls


def test_a_mistyped_command_is_no_daemon(
    calls: list[tuple[str, list[str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["stats"]) == 1
    assert capsys.readouterr().err == "Error: there is no command 'stats': did you mean status?\n"
    assert calls == []


@pytest.mark.parametrize("name", TOOLS)
def test_every_tool_is_there_and_the_help_of_the_daemon_names_it(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage:\n  kube-proxy {name} ")
    assert cli.main(["--help"]) == 0
    assert f"\n  {name} " in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["explain", "--manifests=examples", f"--to=cart:{'9' * 5000}"], id="a-tool"),
        pytest.param([f"--healthz-port={'9' * 5000}"], id="the-daemon"),
    ],
)
def test_a_number_of_any_length_is_only_too_large(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 1
    assert f"Error: {'invalid argument' if len(arguments) == 1 else '--to cart'}" in (
        capsys.readouterr().err
    )


def test_the_arguments_of_the_process_are_taken(
    calls: list[tuple[str, list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["kube-proxy", "explain", "--to=a"])
    cli.main()
    assert calls == [("explain", ["--to=a"])]


def failing(error: BaseException) -> Command:
    def command(_: Sequence[str]) -> int:
        raise error

    return command


@pytest.mark.parametrize(
    "error",
    [KubeProxyError("it broke"), OperatorError("it broke"), ApiServerError("it broke")],
    ids=lambda error: type(error).__name__,
)
def test_a_tool_tells_errors_to_people(
    error: KubeProxyError, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(explain, "main", failing(error))
    assert cli.main(["explain"]) == 1
    assert capsys.readouterr() == ("", "Error: it broke\n")


def test_names_in_an_error_do_nothing_to_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(explain, "main", failing(OperatorError("no cart\nbut \x1b[2Jtill")))
    assert cli.main(["explain"]) == 1
    assert capsys.readouterr().err == "Error: no cart\nbut \ufffd[2Jtill\n"


@pytest.mark.parametrize(
    "error", [KernelError("it broke"), OperatorError("it broke")], ids=lambda e: type(e).__name__
)
def test_the_daemon_tells_errors_to_its_log(
    error: KubeProxyError, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "main", failing(error))
    assert cli.main([]) == 1
    out, err = capsys.readouterr()
    assert (out, err.partition("] ")[2]) == ("", '"command failed" err="it broke"\n')


@pytest.mark.parametrize("arguments", [[], ["explain"]], ids=["daemon", "tool"])
@pytest.mark.parametrize("show_usage", [True, False])
def test_wrong_use_is_told_to_people(
    arguments: list[str],
    show_usage: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = UsageError("no such flag", show_usage=show_usage)
    for command in (run, explain):
        monkeypatch.setattr(command, "main", failing(error))
        monkeypatch.setattr(command, "usage_text", lambda: "Usage: ...\n")
    assert cli.main(arguments) == 1
    usage = "Usage: ...\n\n" if show_usage else ""
    assert ("", f"{usage}Error: no such flag\n") == capsys.readouterr()


def test_an_interrupt_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain, "main", failing(KeyboardInterrupt()))
    assert cli.main(["explain"]) == 130


def test_our_own_mistakes_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain, "main", failing(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        cli.main(["explain"])


def explained(
    tmp_path: Path, output: int | None, before: Callable[[], None] | None = None
) -> tuple[int, bytes]:
    """The exit code and the complaints of a tool whose output goes there."""
    write(tmp_path, SHOP)
    program = "import sys; from kubeproxy.app.cli import main; sys.exit(main())"
    ended = subprocess.run(
        [sys.executable, "-c", program, "explain", f"--manifests={tmp_path}", "--to=cart"],
        stdout=output,
        stderr=subprocess.PIPE,
        preexec_fn=before,  # no other threads matter here
        check=False,
        timeout=60,
    )
    return ended.returncode, ended.stderr


def test_a_reader_who_has_seen_enough(tmp_path: Path) -> None:
    """`kube-proxy explain ... | true` ends without a word, and not as if something were wrong."""
    read, written = os.pipe()
    os.close(read)
    assert explained(tmp_path, written) == (128 + signal.SIGPIPE, b"")
    os.close(written)


def test_a_full_disk_is_no_traceback(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        assert explained(tmp_path, full.fileno()) == (
            1,
            b"Error: the output cannot be written: No space left on device\n",
        )


def test_an_output_that_is_closed_is_none(tmp_path: Path) -> None:
    """`kube-proxy explain ... >&-`."""
    assert explained(tmp_path, None, lambda: os.close(1)) == (0, b"")


def test_other_errors_of_the_system_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain, "main", failing(OSError(errno.EBADF, "a mistake of ours")))
    with pytest.raises(OSError, match="a mistake of ours"):
        cli.main(["explain"])


def test_the_daemon_starts_without_what_only_tools_need() -> None:
    program = (
        "import sys; from kubeproxy.app.cli import main; main(['--version']);"
        "print(sorted({'kubeproxy.tools.explain', 'rich', 'aiohttp'} & set(sys.modules)))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert ended.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", [[], ["services"], ["explain", "--to"]])
def test_arguments_that_are_no_text_are_named(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*command, os.fsdecode(b"a\xffb")]) == 1
    assert capsys.readouterr().err == "Error: the argument 'a\\udcffb' is not UTF-8\n"


OTHER_LAYOUTS = [
    pytest.param("byteorder", "big", "big-endian", id="big-endian"),
    pytest.param("maxsize", 2**31 - 1, "32-bit", id="32-bit"),
]


@pytest.mark.parametrize(("fact", "value", "kind"), OTHER_LAYOUTS)
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param(["--manifests=.", "--dry-run"], 1, id="daemon"),
        pytest.param(["--cleanup"], 1, id="cleanup"),
        pytest.param(["--init-only"], 1, id="init-only"),
        pytest.param(["check"], 1, id="check"),
        pytest.param(["diff"], 2, id="diff"),
        pytest.param(["trace", "--to=shop/storefront"], 1, id="trace"),
        pytest.param(["render", "--manifests=."], 1, id="render"),
    ],
)
def test_machines_of_another_layout_are_refused(  # noqa: PLR0917  # two tables
    arguments: list[str],
    code: int,
    fact: str,
    value: object,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, fact, value)
    assert code == cli.main(arguments)
    out, err = capsys.readouterr()
    assert out == ""
    assert "supports 64-bit little-endian machines (x86-64, arm64)" in err
    assert f"this process is {kind}" in err


@pytest.mark.parametrize(("fact", "value", "kind"), OTHER_LAYOUTS)
@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["check", "--help"], ["--write-config-to=/dev/null"]],
    ids=" ".join,
)
def test_what_needs_no_kernel_works_on_every_machine(
    arguments: list[str], fact: str, value: object, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, fact, value)
    assert cli.main(arguments) == 0, kind


@pytest.mark.parametrize("columns", [60, 200])
@pytest.mark.parametrize("command", ["", *TOOLS])
def test_help_fits_the_terminal(columns: int, command: str) -> None:
    arguments = (sys.executable, "-m", "kubeproxy", *filter(None, [command]), "--help")
    with in_terminal(arguments, columns=columns) as terminal:
        assert terminal.wait() == 0
    lines = terminal.said.split("\r\n")
    assert lines[0] == "Usage:"
    assert [line for line in lines if len(line) > min(columns, 100)] == []
    if not command:
        assert lines[1:5] == [
            *("  kube-proxy [flags]", "  kube-proxy COMMAND [flags]", ""),
            "Commands (kube-proxy COMMAND --help):",
        ]
