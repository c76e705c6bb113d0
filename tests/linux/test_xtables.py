"""The programs are scripts here: what they are given, and how their ends are understood."""

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from kubeproxy.base.inet import Family
from kubeproxy.linux.tools import lines_named, quoted
from kubeproxy.linux.xtables import Xtables, XtablesFailed


class Programs:
    """A PATH with programs of our own; what they are called with is in a file."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write(self, name: str, script: str = "") -> None:
        program = self._directory / name
        log = self._directory / "calls"
        program.write_text(f'#!/bin/sh\necho "{name} $*" >> {log}\n{script}\n')
        program.chmod(0o755)

    def calls(self) -> list[str]:
        return (self._directory / "calls").read_text().splitlines()


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    monkeypatch.setattr(
        "kubeproxy.linux.xtables.find",
        lambda name: str(tmp_path / name) if (tmp_path / name).exists() else None,
    )
    return Programs(tmp_path)


def test_how_the_programs_are_called(installed: Programs) -> None:
    installed.write("iptables")
    installed.write("iptables-save", "echo saved")
    installed.write("iptables-restore", "cat > /dev/null")
    programs = Xtables(Family.IPV4)
    programs.check()
    programs.ensure_chain("nat", "KUBE-SERVICES")
    assert programs.has_chain("mangle", "KUBE-PROXY-CANARY")
    assert not programs.ensure_rule("filter", "INPUT", ("-j", "KUBE-FIREWALL"))
    assert programs.save("nat") == "saved\n"
    programs.restore("*nat\nCOMMIT\n")
    assert installed.calls() == [
        "iptables --version",
        "iptables -w 5 -S POSTROUTING -t nat",
        "iptables -w 5 -N KUBE-SERVICES -t nat",
        "iptables -w 5 -S KUBE-PROXY-CANARY -t mangle",
        "iptables -w 5 -C INPUT -t filter -j KUBE-FIREWALL",
        "iptables-save -t nat",
        "iptables-restore -w 5 --noflush --counters",
    ]


@pytest.mark.parametrize(
    "said",
    [
        pytest.param("iptables v1.8.9 (nf_tables)", id="of-today"),
        pytest.param("iptables v1.6.2", id="oldest"),
        pytest.param("iptables v1.10.0 (legacy)", id="of-the-future"),
        pytest.param("hello", id="no-version"),
    ],
)
def test_a_version_that_will_do(installed: Programs, said: str) -> None:
    installed.write("iptables", f"echo '{said}'")
    Xtables(Family.IPV4).check()
    assert installed.calls()[-1] == "iptables -w 5 -S POSTROUTING -t nat"


@pytest.mark.parametrize("version", ["1.6.1", "1.4.21"])
def test_a_version_that_is_too_old_is_named_and_what_to_do(
    installed: Programs, version: str
) -> None:
    installed.write("ip6tables", f"echo 'ip6tables v{version}'")
    with pytest.raises(XtablesFailed) as caught:
        Xtables(Family.IPV6).check()
    assert str(caught.value) == (
        f"ip6tables v{version} is too old, 1.6.2 or later is needed: its restore waits for the"
        " lock: install a newer one, or use another proxy mode"
    )
    assert installed.calls() == ["ip6tables --version"]


def test_a_rule_that_is_missing_is_put_first(installed: Programs) -> None:
    installed.write("ip6tables", 'case "$*" in *-C*) exit 1;; esac')
    assert Xtables(Family.IPV6).ensure_rule("nat", "OUTPUT", ("-j", "KUBE-SERVICES"))
    assert installed.calls()[-1] == "ip6tables -w 5 -I OUTPUT -t nat -j KUBE-SERVICES"


def test_a_chain_that_exists_is_no_error(installed: Programs) -> None:
    installed.write("iptables", "exit 1")
    programs = Xtables(Family.IPV4)
    programs.ensure_chain("nat", "KUBE-SERVICES")
    assert not programs.has_chain("nat", "KUBE-SERVICES")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param(("iptables", "iptables-nft"), "iptables", id="the-systems-own-first"),
        pytest.param(("iptables-legacy", "iptables-nft"), "iptables-nft", id="else-nft"),
        pytest.param(("iptables-legacy",), "iptables-legacy", id="else-legacy"),
    ],
)
def test_which_program_is_used(installed: Programs, names: tuple[str, ...], expected: str) -> None:
    for name in names:
        installed.write(name)
    Xtables(Family.IPV4).has_chain("nat", "POSTROUTING")
    assert installed.calls() == [f"{expected} -w 5 -S POSTROUTING -t nat"]


@pytest.mark.parametrize(
    ("script", "words", "code"),
    [
        pytest.param("exit 4", "exit code 4 (another program holds the lock", 4, id="lock-held"),
        pytest.param("kill -9 $$", "killed by SIGKILL", -9, id="killed"),
        pytest.param("echo no good >&2; exit 2", "exit code 2: no good", 2, id="its-own-words"),
    ],
)
def test_how_it_failed(installed: Programs, script: str, words: str, code: int) -> None:
    installed.write("iptables", script)
    programs = Xtables(Family.IPV4)
    for ask in (programs.has_chain, programs.ensure_chain):
        with pytest.raises(XtablesFailed) as caught:
            ask("nat", "KUBE-SERVICES")
        assert words in str(caught.value)
        assert caught.value.code == code


def test_a_refused_line_is_quoted(installed: Programs) -> None:
    installed.write("iptables-restore", "echo 'Error occurred at line: 2' >&2; exit 2")
    with pytest.raises(XtablesFailed, match="line 2 is: -A NONSENSE -j NOWHERE"):
        Xtables(Family.IPV4).restore("*nat\n-A NONSENSE -j NOWHERE\nCOMMIT\n")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("iptables-restore: line 3 failed", "; line 3 is: c"),
        (
            "line 1: RULE_APPEND failed: rule in chain X line 2: too",
            "; line 1 is: a; line 2 is: b",
        ),
        ("line 9 failed, line 0 too", ""),
        ("something else", ""),
    ],
)
def test_lines_are_found_in_what_the_program_says(said: str, expected: str) -> None:
    assert quoted(lines_named(said, "a\nb\nc")) == expected


def test_a_program_that_is_missing_is_named(installed: Programs) -> None:  # noqa: ARG001  # none
    with pytest.raises(XtablesFailed, match="ip6tables-restore is not installed"):
        Xtables(Family.IPV6).restore("*nat\n")


def test_a_program_that_cannot_be_run(installed: Programs, tmp_path: Path) -> None:
    installed.write("iptables")
    (tmp_path / "iptables").chmod(0o644)
    with pytest.raises(XtablesFailed, match="Permission denied"):
        Xtables(Family.IPV4).check()


def test_a_program_that_hangs(installed: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubeproxy.linux.xtables._SECONDS", 0.05)
    installed.write("iptables", "exec sleep 5")
    with pytest.raises(XtablesFailed, match=r"did not end within 0\.05 seconds"):
        Xtables(Family.IPV4).check()


def test_the_more_there_is_to_write_the_longer_it_may_take(
    installed: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubeproxy.linux.xtables._SECONDS", 0.0)
    monkeypatch.setattr("kubeproxy.linux.xtables._BYTES_A_SECOND", 100)
    installed.write("iptables-restore", "exec sleep 5")
    with pytest.raises(XtablesFailed, match=r"did not end within 0\.05 seconds"):
        Xtables(Family.IPV4).restore("*nat\n")


class Hanging:
    """A program of IPv6 that hangs until it is let go; IPv4 can be asked for meanwhile."""

    def __init__(self, installed: Programs, place: Path, threads: ThreadPoolExecutor) -> None:
        started, self._go = place / "started", place / "go"
        os.mkfifo(started)
        os.mkfifo(self._go)
        hang = f"echo > {started}; cat {self._go}; echo end >> {place / 'calls'}"
        installed.write("ip6tables-restore", hang)
        installed.write("iptables")
        self._threads = threads
        self._hangs = threads.submit(Xtables(Family.IPV6).restore, "*nat\n")
        started.read_text()

    def ask_ipv4(self) -> Future[None]:
        return self._threads.submit(Xtables(Family.IPV4).check)

    def let_go(self) -> None:
        if not self._hangs.done():
            self._go.write_text("")
            self._hangs.result()


@pytest.fixture
def hanging(installed: Programs, tmp_path: Path) -> Iterator[Hanging]:
    with ThreadPoolExecutor() as threads:
        opened = Hanging(installed, tmp_path, threads)
        yield opened
        opened.let_go()


def test_a_program_that_hangs_keeps_the_other_family_waiting_for_a_while_only(
    hanging: Hanging, installed: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubeproxy.linux.xtables._TURN_SECONDS", 0.05)
    for _ in range(3):
        hanging.ask_ipv4().result(timeout=10)
    assert "end" not in installed.calls()


def test_the_families_take_turns(hanging: Hanging, installed: Programs) -> None:
    asked = hanging.ask_ipv4()
    hanging.let_go()
    asked.result()
    asking = ["iptables --version", "iptables -w 5 -S POSTROUTING -t nat"]
    assert installed.calls()[-3:] == ["end", *asking]


def test_what_our_programs_did_is_known_by_their_numbers(
    installed: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = tmp_path / "number"
    installed.write("iptables", f"echo $$ > {number}")
    programs = Xtables(Family.IPV4)
    programs.check()
    first = int(number.read_text())
    assert programs.is_own(first)
    assert not programs.is_own(first + 1)
    assert not Xtables(Family.IPV6).is_own(first)
    monkeypatch.setattr("kubeproxy.linux.xtables._REMEMBERED", -1.0)
    programs.check()
    assert not programs.is_own(first)
    assert programs.is_own(int(number.read_text()))


@pytest.mark.parametrize(
    ("version", "is_nft"), [("v1.8.9 (nf_tables)", True), ("v1.8.9 (legacy)", False)]
)
def test_which_kind_the_programs_are(installed: Programs, version: str, *, is_nft: bool) -> None:
    installed.write("iptables", f"echo 'iptables {version}'")
    assert Xtables(Family.IPV4).is_nft() is is_nft
