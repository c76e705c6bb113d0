"""The `nft` program, in its absence too. What the real one prints is read in the lab."""

from pathlib import Path

import pytest

from kubeproxy.linux import tools
from kubeproxy.linux.nft import rule_texts

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


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place where programs are."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(tools, "_ELSEWHERE", str(tmp_path))
    return tmp_path


def install(directory: Path, script: str) -> None:
    program = directory / "nft"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_rules_by_their_handles(directory: Path) -> None:
    (directory / "listing").write_text(LISTING)
    install(directory, f'echo "$@" > {directory}/called; cat {directory}/listing')
    found = rule_texts("ip", "kube-proxy")
    assert found[131] == "ip saddr 192.0.2.7 drop"
    assert found[58] == "ip daddr . meta l4proto . th dport vmap @service-ips"
    assert (directory / "called").read_text() == "-a -t list table ip kube-proxy\n"


def test_without_the_program_there_are_no_texts(directory: Path) -> None:
    assert directory.exists()
    assert rule_texts("ip", "kube-proxy") == {}


def test_a_program_that_fails_has_no_texts_either(directory: Path) -> None:
    install(directory, "exit 1")
    assert rule_texts("ip", "kube-proxy") == {}
