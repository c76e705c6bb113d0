"""In the guest: `kube-proxy check` of all modes, with both kinds of the iptables programs."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from kernels.job import NFTABLES_SINCE, version_of
from kernels.report import reporting
from kubeproxy.linux.tools import RuleKind
from lab.xtables import programs

SECONDS = 120.0


class Answer(msgspec.Struct, frozen=True):
    """How `check` ended, the modes that are ready, and what it says of each."""

    code: int
    ready: dict[str, bool]
    conclusions: dict[str, str]


def ask() -> Answer:
    """Run it as people do."""
    done = subprocess.run(
        [sys.executable, "-m", "kubeproxy", "check", "-o", "json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.stdout, f"it ended with {done.returncode}: {done.stderr}"
    said = json.loads(done.stdout)
    print(done.stdout)  # noqa: T201  # to the console
    verdicts = said["verdicts"]
    return Answer(
        done.returncode,
        {each["mode"]: each["ready"] for each in verdicts},
        {each["mode"]: each["conclusion"] for each in verdicts},
    )


def main(_: Sequence[str]) -> None:
    """Ask with both kinds."""
    has_nftables = version_of(os.uname().release) >= NFTABLES_SINCE
    with reporting("check") as report, tempfile.TemporaryDirectory() as place:
        for backend in RuleKind:
            with programs(backend, Path(place, backend.value)):
                answer = ask()
            with report.check(f"exit code, {backend.value}"):
                assert answer.code == 0, answer.code
            for mode in ("iptables", "ipvs"):
                with report.check(f"{mode} is ready, {backend.value}"):
                    assert answer.ready[mode], answer.conclusions[mode]
            if has_nftables:
                with report.check(f"nftables is ready, {backend.value}"):
                    assert answer.ready["nftables"], answer.conclusions["nftables"]
            else:
                with report.check(f"nftables is refused, and the kernel named, {backend.value}"):
                    assert not answer.ready["nftables"]
                    assert "5.13" in answer.conclusions["nftables"], answer.conclusions
