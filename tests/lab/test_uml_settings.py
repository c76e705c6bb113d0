"""Settings of the whole machine, in the test kernel's own network: run by `python -m uml`."""

import subprocess
import sys
from pathlib import Path

import pytest

MAX = "/proc/sys/net/netfilter/nf_conntrack_max"
KUBE_PROXY = [sys.executable, "-m", "kubeproxy"]


def on_machine(*command: str) -> subprocess.CompletedProcess[str]:
    """What a command says that runs in the machine's own network namespace."""
    entering = ["nsenter", "--net=/proc/1/ns/net"]
    return subprocess.run([*entering, *command], capture_output=True, text=True, check=True)


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        pytest.param(
            1048576,
            'W "Set sysctl, to less than it was" entry="net/netfilter/nf_conntrack_max"'
            ' value=131072 before=1048576 askedBy="conntrack.maxPerCore, conntrack.min"'
            ' keepWith="conntrack.maxPerCore: 0 (--conntrack-max-per-core=0)"',
            id="lowered-with-a-warning",
        ),
        pytest.param(
            65536,
            'I "Set sysctl" entry="net/netfilter/nf_conntrack_max" value=131072',
            id="raised",
        ),
    ],
)
def test_the_conntrack_limit_is_set(before: int, expected: str, tmp_path: Path) -> None:
    on_machine("modprobe", "nf_conntrack")
    on_machine("sh", "-c", f"echo {before} >{MAX}")
    flags = ["--init-only", f"--manifests={tmp_path}", "--proxy-mode=iptables"]
    said = on_machine(*KUBE_PROXY, *flags).stderr
    assert on_machine("cat", MAX).stdout == "131072\n"
    (line,) = (line for line in said.splitlines() if "nf_conntrack_max" in line)
    assert expected == f"{line[0]} {line.partition('] ')[2]}"
