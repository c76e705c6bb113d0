"""Completion in the shells themselves: typed in a terminal, as a person does."""

import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from fakes.daemon import FakeDaemon, always, serving
from kubeproxy.tools.shell.completion import script
from terminals import in_terminal
from tools import reported

Start = Callable[[Path], tuple[list[str], Mapping[str, str]]]
BIN = Path(sys.executable).parent
HOME, END = "\x01", "\x05"


def bash(home: Path) -> tuple[list[str], Mapping[str, str]]:
    (home / "rc").write_text(f"PS1='ready> '\n{script('bash')}")
    return ["bash", "--noprofile", "--rcfile", str(home / "rc"), "-i"], {}


def zsh(home: Path) -> tuple[list[str], Mapping[str, str]]:
    functions = home / "functions"
    functions.mkdir()
    (functions / "_kube-proxy").write_text(script("zsh"))
    started = f"fpath=({functions} $fpath); autoload -Uz compinit; compinit -D -u"
    (home / ".zshrc").write_text(f"{started}\nbindkey -e\nPROMPT='ready> '\n")
    return ["zsh", "-i"], {"ZDOTDIR": str(home)}


def zsh_that_sources(home: Path) -> tuple[list[str], Mapping[str, str]]:
    (home / "script").write_text(script("zsh"))
    started = f"autoload -Uz compinit; compinit -D -u; source {home / 'script'}"
    (home / ".zshrc").write_text(f"{started}\nbindkey -e\nPROMPT='ready> '\n")
    return ["zsh", "-i"], {"ZDOTDIR": str(home)}


def fish(home: Path) -> tuple[list[str], Mapping[str, str]]:
    completions = home / "fish/completions"
    completions.mkdir(parents=True)
    (completions / "kube-proxy.fish").write_text(script("fish"))
    (home / "fish/config.fish").write_text("function fish_prompt\n    echo 'ready> '\nend\n")
    return ["fish", "-i"], {"XDG_CONFIG_HOME": str(home), "XDG_DATA_HOME": str(home)}


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[FakeDaemon]:
    pages = {"/status/services": always(reported.services(reported.CART, reported.DNS))}
    with serving(FakeDaemon(pages), tmp_path / "socket") as daemon:
        yield daemon


def completed(start: Start, home: Path, typed: str) -> list[str]:
    """The words of the command line after what was typed, which has tabs."""
    assert shutil.which(start(home)[0][0]), "make packages installs it"
    shutil.rmtree(home)
    home.mkdir()
    command, environment = start(home)
    path = {"PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(home), **environment}
    with in_terminal(command, columns=200, environment=path) as terminal:
        terminal.until(lambda: "ready> " in terminal.said)
        terminal.type(f"{typed}{HOME}printf '<%s>' {END} done\r")
        terminal.until(lambda: "<done>" in terminal.said)
        words = terminal.said.partition("<kube-proxy>")[2].partition("<done>")[0]
        terminal.type("exit\r")
        terminal.wait()
    return words.removeprefix("<").removesuffix(">").split("><")


@pytest.mark.slow
@pytest.mark.parametrize("start", [bash, zsh, zsh_that_sources, fish])
@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        pytest.param("rend\t", ["render"], id="a-command"),
        pytest.param("services --no-r\t", ["services", "--no-rates"], id="a-flag"),
        pytest.param("--proxy-mode nft\t", ["--proxy-mode", "nftables"], id="a-value"),
        pytest.param("--proxy-mode=nft\t", ["--proxy-mode=nftables"], id="a-value-behind-="),
        pytest.param("--config FOLDER/man\t", ["--config", "FOLDER/manifest.yaml"], id="a-file"),
        pytest.param("--config=FOLDER/man\t", ["--config=FOLDER/manifest.yaml"], id="of-a-flag"),
        pytest.param(
            "services --socket SOCKET shop/c\t",
            ["services", "--socket", "SOCKET", "shop/cart"],
            id="a-service-of-the-running-proxy",
        ),
        pytest.param(
            "services --socket SOCKET -n kube\t d\t",
            ["services", "--socket", "SOCKET", "-n", "kube-system", "dns"],
            id="a-namespace-and-a-service-of-it",
        ),
    ],
)
def test_a_word_is_completed(
    tmp_path: Path, daemon: FakeDaemon, start: Start, typed: str, expected: list[str]
) -> None:
    (tmp_path / "manifest.yaml").write_text("")
    (tmp_path / "home").mkdir()

    def placed(text: str) -> str:
        return text.replace("FOLDER", str(tmp_path)).replace("SOCKET", daemon.socket)

    found = completed(start, tmp_path / "home", f"kube-proxy {placed(typed)}")
    assert list(map(placed, expected)) == found
