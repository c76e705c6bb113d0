"""Running the proxy and `--cleanup` in a kernel, and looking at what is left."""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kubeproxy.base.inet import Family
from kubeproxy.linux.tools import RuleKind
from lab.launch import KUBE_PROXY, launcher
from lab.namespaces import Namespace

_STEM = {Family.IPV4: "iptables", Family.IPV6: "ip6tables"}


def cleaned(node: Namespace, *before: str) -> tuple[int, str]:
    """Run --cleanup, with the words before it; its exit code and its log."""
    with node.entered():
        ran = launcher(before).tool(["--cleanup", "--proxy-mode=nftables"], os.environ)
    assert ran.out == ""
    return ran.code, ran.err


def program(backend: RuleKind, family: Family) -> str:
    return f"{_STEM[family]}-{backend.value}"


def restore_beside(node: Namespace, backend: RuleKind, family: Family, text: str) -> None:
    """Add these rules to what is there."""
    node.run([f"{program(backend, family)}-restore", "--noflush"], text)


def saved(node: Namespace, backend: RuleKind, family: Family) -> str:
    """All rules, without remarks and counters."""
    lines = node.run([f"{program(backend, family)}-save"]).splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("#"))


def set_names(node: Namespace) -> list[str]:
    return node.run(["ipset", "list", "-n"]).splitlines()


@contextlib.contextmanager
def running(
    node: Namespace,
    manifests: Path,
    log: Path,
    flags: Sequence[str],
    before: Sequence[str] = (),
) -> Iterator[None]:
    """Inside, a proxy runs, with the words before it."""
    which = [f"--manifests={manifests}", "--hostname-override=kestrel"]
    with node.entered(), log.open("w") as file:
        process = subprocess.Popen([*before, *KUBE_PROXY, *which, *flags], stderr=file)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def wait(condition: Callable[[], bool], what: Callable[[], str]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.05)
