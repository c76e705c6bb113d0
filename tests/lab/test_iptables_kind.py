"""An image with both kinds of iptables uses the one that the kubelet of the node uses."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dataplane.leftover_rules import kubelet
from kubeproxy.base.inet import Family
from kubeproxy.linux.tools import RuleKind
from kubeproxy.linux.xtables import KIND
from lab.cleaning import restore_beside, running, saved, wait
from lab.namespaces import Namespace
from lab.xtables import programs

EXAMPLES = Path(__file__).parents[2] / "examples"
OTHER = {RuleKind.NFT: RuleKind.LEGACY, RuleKind.LEGACY: RuleKind.NFT}


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[Namespace]:
    """A node whose proxy is told to use what the node uses."""
    monkeypatch.setenv(KIND, "node")
    namespace = Namespace("kind")
    yield namespace
    namespace.close()


@pytest.mark.parametrize("kind", RuleKind, ids=lambda kind: kind.value)
def test_the_daemon_and_its_tools(node: Namespace, kind: RuleKind, tmp_path: Path) -> None:
    for family in Family:
        restore_beside(node, kind, family, kubelet(family))
    log = tmp_path / "log"
    with programs(OTHER[kind], tmp_path / "bin"):  # those that are called iptables
        with running(node, EXAMPLES, log, ["--proxy-mode=iptables", "-v=2"]):
            wait(lambda: '"Synced" ipFamily="IPv4"' in log.read_text(), log.read_text)
            rules = {each: saved(node, each, Family.IPV4) for each in RuleKind}
        with node.entered():
            command = [sys.executable, "-m", "kubeproxy", "check", "--mode=iptables", "-o=json"]
            checked = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f'kind="{kind.value}: the kubelet has KUBE-' in log.read_text()
    assert "KUBE-SVC-" in rules[kind]
    assert "KUBE-SVC-" not in rules[OTHER[kind]]
    findings = json.loads(checked.stdout)["findings"]
    (said,) = [each["detail"] for each in findings if each["what"] == "iptables"]
    assert ("nf_tables" if kind is RuleKind.NFT else "legacy") in said
    assert not [each for each in findings if each["what"] == "kubelet"]
