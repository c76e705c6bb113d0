import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.daemon import FakeDaemon, always, serving
from kubeproxy.app.cli import main
from tools import reported


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[FakeDaemon]:
    pages = {"/status/services": always(reported.services(reported.CART, reported.DNS))}
    with serving(FakeDaemon(pages), tmp_path / "socket") as daemon:
        yield daemon


def test_services_of_the_running_proxy(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["complete", "--", "services", "--socket", daemon.socket, "shop/"]) == 0
    assert capsys.readouterr() == ("shop/cart\n", "")
    assert daemon.queries("/status/services") == [{"q": ["shop/"], "limit": ["500"]}]


def test_no_proxy_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["complete", "--", "services", f"--socket={tmp_path}/none", ""]) == 0
    assert capsys.readouterr() == ("", "")


def test_words_and_what_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["complete", "--", "rend"]) == 0
    assert capsys.readouterr().out == "render\tthe rules that would be programmed, as text\n"
    assert main(["complete"]) == 0
    assert "status\t" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("shell", "checker"), [("bash", "bash"), ("zsh", "zsh"), ("fish", "fish")]
)
def test_a_script_is_one_for_its_shell(
    shell: str, checker: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    subprocess.run([checker, "-n"], input=text, text=True, check=True)


@pytest.mark.parametrize("arguments", [[], ["csh"], ["bash", "zsh"]])
def test_which_shells_there_are(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", *arguments]) == 1
    expected = "Error: say which shell: kube-proxy completion bash|zsh|fish\n"
    assert capsys.readouterr() == ("", expected)
