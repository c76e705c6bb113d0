"""The program `ipset`: what is said when it is missing, too old, or refuses."""

from pathlib import Path

import pytest

from fakes.programs import install, only_in
from kubeproxy.linux import ipset
from kubeproxy.linux.ipset import IpsetFailed

TEXT = "create KUBE-IPVS-IPS hash:ip\nadd KUBE-IPVS-IPS nonsense\n"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that holds all programs there are."""
    only_in(tmp_path, monkeypatch)
    return tmp_path


@pytest.mark.usefixtures("programs")
def test_a_missing_program() -> None:
    with pytest.raises(IpsetFailed, match=r"ipset is not installed.*apt-get install ipset"):
        ipset.check()


@pytest.mark.parametrize(
    "said",
    [
        pytest.param("ipset v7.17, protocol version: 7", id="of-today"),
        pytest.param("ipset v6.0, protocol version: 6", id="oldest"),
        pytest.param("ipset v10.1, protocol version: 9", id="of-the-future"),
    ],
)
def test_a_version_that_will_do(programs: Path, said: str) -> None:
    install(programs, "ipset", f"echo '{said}'")
    ipset.check()


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param(
            "ipset v4.5, protocol version: 4",
            "ipset v4.5, protocol version: 4 is too old, 6.0 or later is needed: install a newer",
            id="too-old",
        ),
        pytest.param("hello", "ipset --version names no version: hello", id="no-version"),
    ],
)
def test_a_version_that_will_not_do(programs: Path, said: str, expected: str) -> None:
    install(programs, "ipset", f"echo '{said}'")
    with pytest.raises(IpsetFailed, match=expected):
        ipset.check()


def test_the_line_that_is_refused_is_named(programs: Path) -> None:
    install(programs, "ipset", "echo 'ipset v7.17: Error in line 2: Syntax error' >&2; exit 1")
    with pytest.raises(IpsetFailed) as raised:
        ipset.restore(TEXT)
    assert raised.value.line == 2
    assert str(raised.value).endswith(
        "/ipset restore -exist: exit code 1: ipset v7.17: Error in line 2: Syntax error"
        "; line 2 is: add KUBE-IPVS-IPS nonsense"
    )


@pytest.mark.parametrize(
    "said",
    [
        pytest.param("Error in line 9: Syntax error", id="a-line-that-is-not-there"),
        pytest.param("Kernel error received: Operation not permitted", id="no-line"),
    ],
)
def test_no_line_to_show(programs: Path, said: str) -> None:
    install(programs, "ipset", f"echo '{said}' >&2; exit 1")
    with pytest.raises(IpsetFailed, match=f"exit code 1: {said}$"):
        ipset.restore(TEXT)


def test_the_text_goes_in(programs: Path, tmp_path: Path) -> None:
    install(programs, "ipset", f'echo "$@" >{tmp_path}/arguments; /bin/cat >{tmp_path}/text')
    ipset.restore(TEXT)
    arguments, text = (tmp_path / "arguments").read_text(), (tmp_path / "text").read_text()
    assert (arguments, text) == ("restore -exist\n", TEXT)


def test_the_capability_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr("socket.socket", refuse)
    with pytest.raises(IpsetFailed, match="needs CAP_NET_RAW"):
        ipset.check_matches()


def test_sets_that_are_not_there_are_left_out(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(programs, "ipset", "while read line; do echo $line; done")
    monkeypatch.setattr(ipset, "names", lambda: ("KUBE-A", "theirs"))
    assert ipset.save(["KUBE-A", "KUBE-B"]) == "save KUBE-A\n"
    assert ipset.save(["KUBE-B"]) == ""


def test_sets_that_cannot_be_read(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(programs, "ipset", "echo 'Kernel error received: Operation not permitted' >&2; exit 1")
    monkeypatch.setattr(ipset, "names", lambda: ("KUBE-A",))
    with pytest.raises(IpsetFailed, match="Operation not permitted"):
        ipset.save(["KUBE-A"])


@pytest.mark.parametrize(
    ("script", "ended"),
    [
        pytest.param("exit 1", True, id="it-refuses"),
        pytest.param("kill -9 $$", False, id="it-is-killed"),
    ],
)
def test_whether_it_came_to_its_end(programs: Path, script: str, ended: bool) -> None:
    install(programs, "ipset", script)
    with pytest.raises(IpsetFailed) as caught:
        ipset.restore(TEXT)
    assert ended is caught.value.ended
