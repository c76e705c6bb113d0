"""The containers of deploy/ with exactly their rights: they do their work, and need each of them.

/proc/sys and all files are read-only for them, as for the containers. What may be missing is
named by the error at the start. (ipvs mode: test_ipvs_capabilities.)
"""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.cleanup import clean_up
from kubeproxy.linux.tools import RuleKind
from lab.confined import through
from lab.containers import TESTS, Pod
from lab.deploy import ETP_LOCAL, Port, deploy, everywhere
from lab.network import Network
from lab.responders import Responders
from lab.stage import NFTABLES, Lab
from lab.xtables import IPTABLES, programs
from world import Document


@pytest.fixture(scope="module")
def apart(_own_namespaces: None) -> Iterator[Network]:
    """A network without traces of another proxy, or of iptables."""
    yield from _network("apart-")


@pytest.fixture(scope="module")
def xtables(_own_namespaces: None) -> Iterator[Network]:
    """Once there are tables of iptables-legacy, the kernel does not say that they are empty."""
    yield from _network("xtables-")


def _network(prefix: str) -> Iterator[Network]:
    network = Network(prefix)
    responders = Responders(network)
    yield network
    responders.close()
    network.close()


@pytest.fixture(params=RuleKind, ids=lambda backend: backend.value)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RuleKind]:
    """The kind of the system's programs."""
    with programs(request.param, tmp_path / "bin"):
        yield request.param


LOCAL = {**ETP_LOCAL, "healthCheckNodePort": 32082}


def services() -> list[Document]:
    return [
        *deploy("cart", everywhere(21), "L1 R1", [Port(node_port=31080)]),
        *deploy("near", everywhere(22), "L1 R1", [Port(node_port=31082)], LOCAL),
    ]


# What every start in a network namespace of the lab's kind says, with or without rights.
KNOWN = (
    "Sysctl can only be set in the machine's own network namespace",
    "nodePortAddresses is unset",
    "ipvs proxy mode is deprecated",
)


def complaints(pod: Pod) -> list[str]:
    """Lines of the log that an operator would look into."""
    return [
        line
        for line in pod.log.splitlines()
        if line[:1] in {"E", "W"} and not any(text in line for text in KNOWN)
    ]


def check_works(pod: Pod, lab: Lab) -> None:
    """Have the pod's containers serve, and change what they serve."""
    first = pod.initialise()
    assert first.returncode == 0, first.stderr
    try:
        lab.run(documents=services())
        lab.compare(sources=("P", "X"))
        lab.put(*deploy("cart", everywhere(21), "R2", [Port(node_port=31080)]))
        lab.compare(sources=("P", "X"))
        assert "Set sysctl" not in pod.log  # the first container has seen to that
        assert complaints(pod) == []
    finally:
        lab.stop()


def check_refuses(pod: Pod, missing: str) -> None:
    """The proxy ends at once, and its last word names what it lacks."""
    ended = pod.without(missing)
    assert ended.returncode == 1, ended.stderr
    assert f"CAP_{missing}" in ended.stderr.splitlines()[-1]
    assert "Traceback" not in ended.stderr


def test_the_confinement_is_what_it_says(tmp_path: Path) -> None:
    """Else the tests below would pass whatever the containers write."""
    lock = tmp_path / "lock"
    lock.touch()
    script = f"""
        grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status
        for file in {tmp_path}/new /run/new /proc/sys/net/ipv4/ip_forward {lock}; do
            (echo 1 >$file) 2>/dev/null && echo $file
        done
        true"""
    command = [*through(["NET_ADMIN", "NET_RAW"], [str(lock)]), "sh", "-c", script]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    rights = f"{1 << 12 | 1 << 13:016x}"
    expected = ["CapEff:", rights, "CapBnd:", rights, "NoNewPrivs:", "1", str(lock)]
    assert expected == ran.stdout.split()


def test_nftables_mode_works_with_the_rights_of_its_manifest(
    apart: Network, tmp_path: Path
) -> None:
    pod = Pod("nftables", apart, tmp_path)
    check_works(pod, pod.lab(NFTABLES))


def test_nftables_mode_needs_each_of_its_rights(apart: Network, tmp_path: Path) -> None:
    pod = Pod("nftables", apart, tmp_path)
    assert pod.capabilities == ("NET_ADMIN",)
    check_refuses(pod, "NET_ADMIN")


def test_iptables_mode_works_with_the_rights_of_its_manifest(
    xtables: Network, tmp_path: Path, backend: RuleKind
) -> None:
    pod = Pod("iptables", xtables, tmp_path)
    check_works(pod, pod.lab(IPTABLES[backend]))


def test_iptables_mode_needs_each_of_its_rights(
    xtables: Network, tmp_path: Path, backend: RuleKind
) -> None:
    pod = Pod("iptables", xtables, tmp_path)
    assert pod.capabilities == ("NET_ADMIN", "NET_RAW")
    check_refuses(pod, "NET_ADMIN")
    if backend is RuleKind.LEGACY:
        check_refuses(pod, "NET_RAW")


@pytest.mark.parametrize("folder", ["trial", "nftables"])
def test_nftables_mode_removes_what_iptables_mode_left(
    xtables: Network, tmp_path: Path, backend: RuleKind, folder: str
) -> None:
    """The legacy kind takes the rights of a trial; without them, what remains is an error."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    old = Pod("trial", xtables, tmp_path / "old", mode="iptables")
    before = old.lab(IPTABLES[backend])
    new = Pod(folder, xtables, tmp_path / "new", mode="nftables")
    after = new.lab(NFTABLES)
    removes = folder == "trial" or backend is RuleKind.NFT
    for pod in (old, new):
        first = pod.initialise()
        assert first.returncode == 0, first.stderr
    try:
        before.run(documents=services())
        assert "KUBE-SVC-" in before.rules()
        old.end()
        after.run(documents=services())
        deadline = time.monotonic() + 60
        while "KUBE-S" in before.rules() if removes else len(complaints(new)) < len(Family):
            assert time.monotonic() < deadline, new.log
            time.sleep(0.05)
        if removes:
            after.compare(sources=("P", "X"))
            assert complaints(new) == []
        for line in complaints(new):
            assert "Rules of another mode remain" in line
            assert "it needs CAP_NET_ADMIN, CAP_NET_RAW and a writable /run/xtables.lock" in line
    finally:
        before.stop()
        after.stop()
        with xtables.node.entered():
            clean_up()
