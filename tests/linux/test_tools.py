"""Programs of the system: found, run, and reported when they fail."""

import os
import re
import sys
from pathlib import Path

import pytest

from kubeproxy.base import klog
from kubeproxy.linux import tools
from kubeproxy.linux.tools import RuleKind, ToolFailed, find, find_iptables, rule_texts, run


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that holds all programs there are."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(tools, "_ELSEWHERE", str(tmp_path / "elsewhere"))
    (tmp_path / "elsewhere").mkdir()
    return tmp_path


def install(path: Path, prints: str = "") -> str:
    path.write_text(f"#!/bin/sh\necho '{prints}'\n")
    path.chmod(0o755)
    return str(path)


def test_a_program_that_is_not_installed(installed: Path) -> None:
    assert find("ipset") is None
    assert find_iptables("iptables-save", RuleKind.NFT) is None
    assert str(installed) in os.environ["PATH"]


def test_programs_are_also_where_users_do_not_look(installed: Path) -> None:
    assert install(installed / "elsewhere" / "ipset") == find("ipset")


@pytest.mark.parametrize("backend", RuleKind)
def test_a_variant_is_preferred(installed: Path, backend: RuleKind) -> None:
    install(installed / "iptables-save", "iptables v1.8.9 (nf_tables)")
    expected = install(installed / f"iptables-{backend.value}-save")
    assert expected == find_iptables("iptables-save", backend)


@pytest.mark.parametrize(
    ("version", "backend"),
    [
        pytest.param("ip6tables v1.8.9 (nf_tables)", RuleKind.NFT, id="nft"),
        pytest.param("ip6tables v1.8.9 (legacy)", RuleKind.LEGACY, id="legacy"),
        pytest.param("ip6tables v1.6.1", RuleKind.LEGACY, id="from-before-there-were-two"),
    ],
)
def test_the_plain_name_is_one_of_the_two(
    installed: Path, version: str, backend: RuleKind
) -> None:
    plain = install(installed / "ip6tables-restore")
    install(installed / "ip6tables", version)
    found = {each: find_iptables("ip6tables-restore", each) for each in RuleKind}
    assert {each: plain if each is backend else None for each in RuleKind} == found


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_input_goes_in_and_output_comes_out_byte_for_byte() -> None:
    copied = run(
        python("import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"), "\udcff\n"
    )
    assert copied == "\udcff\n"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param(
            python("import sys; sys.exit('no\\n  chain')"),
            "exit code 1: no chain$",
            id="says-why",
        ),
        pytest.param(
            python("raise SystemExit(4)"),
            "exit code 4: no output on stderr$",
            id="does-not-say-why",
        ),
        pytest.param(
            ["/nowhere/ipset", "save"], "^/nowhere/ipset save: No such", id="is-not-there"
        ),
        pytest.param(
            python("import time; time.sleep(60)"),
            "did not end within 0.5 seconds$",
            id="does-not-end",
        ),
        pytest.param(
            python("import os; os.kill(os.getpid(), 9)"),
            "killed by SIGKILL: no output on stderr$",
            id="is-killed",
        ),
    ],
)
def test_a_program_that_fails(command: list[str], expected: str) -> None:
    with pytest.raises(ToolFailed, match=expected) as caught:
        run(command, seconds=0.5 if "sleep" in command[-1] else 10)
    assert caught.value.ended is not any(word in command[-1] for word in ("sleep", "kill"))


LISTING = """\
table ip kube-proxy { # handle 9
	set cluster-ips { # handle 1
		type ipv4_addr
	}

	chain services { # handle 24
		ip saddr 192.0.2.7 drop # handle 131
		ip daddr . meta l4proto . th dport vmap @service-ips # handle 58
	}
}
"""


def install_nft(directory: Path, script: str) -> None:
    program = directory / "nft"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_rules_by_their_handles(installed: Path) -> None:
    (installed / "listing").write_text(LISTING)
    install_nft(installed, f'echo "$@" > {installed}/called; /bin/cat {installed}/listing')
    found = rule_texts("ip", "kube-proxy")
    assert found[131] == "ip saddr 192.0.2.7 drop"
    assert found[58] == "ip daddr . meta l4proto . th dport vmap @service-ips"
    assert (installed / "called").read_text() == "-a -t list table ip kube-proxy\n"


def test_without_the_program_there_are_no_texts(installed: Path) -> None:
    assert installed.exists()
    assert rule_texts("ip", "kube-proxy") == {}


def test_a_program_that_fails_has_no_texts_either(installed: Path) -> None:
    install_nft(installed, "exit 1")
    assert rule_texts("ip", "kube-proxy") == {}


def test_programs_are_logged_with_their_duration_at_4_and_their_input_at_9(
    capsys: pytest.CaptureFixture[str],
) -> None:
    try:
        klog.set_verbosity(3)
        run(["cat"], "some\nlines\n")
        assert capsys.readouterr().err == ""
        klog.set_verbosity(4)
        run(["cat"], "some\nlines\n")
        logged = capsys.readouterr().err
        assert re.search(
            r'"Ran a program" command="cat" seconds=[\d.e-]+ exitCode=0$', logged, re.MULTILINE
        )
        assert "lines" not in logged
        klog.set_verbosity(9)
        run(["cat"], "some\nlines\n")
        assert (
            '"Its input was" command="cat" input=<\n\tsome\n\tlines\n >' in capsys.readouterr().err
        )
    finally:
        klog.configure(klog.LogSettings())
