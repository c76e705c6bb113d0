"""Kernel settings: a network namespace's real /proc/sys, writable, read-only, and incomplete."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.dataplane.iptables.setup import ROUTE_LOCALNET
from kubeproxy.dataplane.modes import load_mode
from kubeproxy.dataplane.sysctls import Sysctl
from kubeproxy.engine.apply_settings import apply_settings
from kubeproxy.linux.machine import ensure_oom_score_adj
from kubeproxy.linux.sysctl import is_fixed, read_sysctl
from kubeproxy.table.node import NodeView
from lab.namespaces import Namespace
from world import NODE_NAME, kestrel, prefix

ESTABLISHED = "net.netfilter.nf_conntrack_tcp_timeout_established"
MAX = "net.netfilter.nf_conntrack_max"
PROC_SYS = "/proc/sys"
KUBE_PROXY = [sys.executable, "-m", "kubeproxy"]
TIMEOUTS = ("--conntrack-tcp-timeout-established=7h", "--conntrack-udp-timeout=47s")


@pytest.fixture
def node() -> Iterator[Namespace]:
    """A network namespace that no other test has changed."""
    namespace = Namespace("settings")
    yield namespace
    namespace.close()


@contextlib.contextmanager
def read_only() -> Iterator[None]:
    """/proc/sys as containers without privileges see it."""
    subprocess.run(["mount", "--bind", PROC_SYS, PROC_SYS], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", PROC_SYS], check=True)
        yield
    finally:
        subprocess.run(["umount", PROC_SYS], check=True)


def established(seconds: int) -> Sysctl:
    field = "conntrack.tcpEstablishedTimeout"
    return Sysctl(ESTABLISHED, seconds, f"{field}: 0s", asked_by=field)


def test_what_differs_is_set_and_the_rest_is_left(
    node: Namespace, capsys: pytest.CaptureFixture[str]
) -> None:
    with node.entered():
        apply_settings([established(700000)])
        assert read_sysctl(ESTABLISHED) == 700000
        said = capsys.readouterr().err
        assert said.startswith("I")
        assert f'"Set sysctl" entry="{ESTABLISHED.replace(".", "/")}" value=700000' in said
        apply_settings([established(700000)])
    assert capsys.readouterr().err == ""


def test_a_setting_that_is_lowered_is_a_warning(
    node: Namespace, capsys: pytest.CaptureFixture[str]
) -> None:
    with node.entered():
        before = read_sysctl(ESTABLISHED)
        apply_settings([established(7200)])
        assert read_sysctl(ESTABLISHED) == 7200
    said = capsys.readouterr().err
    assert said.startswith("W")
    assert said.endswith(
        f'"Set sysctl, to less than it was" entry="{ESTABLISHED.replace(".", "/")}" value=7200'
        f' before={before} askedBy="conntrack.tcpEstablishedTimeout"'
        ' keepWith="conntrack.tcpEstablishedTimeout: 0s"\n'
    )


def test_a_read_only_file_system_does_not_matter_while_nothing_differs(node: Namespace) -> None:
    with node.entered():
        apply_settings([established(7200)])
        with read_only():
            apply_settings([established(7200)])


def test_a_read_only_file_system_is_the_end_with_advice(node: Namespace) -> None:
    with node.entered():
        apply_settings([established(7200)])
        with read_only(), pytest.raises(KernelError) as caught:
            apply_settings([established(3600)])
        assert read_sysctl(ESTABLISHED) == 7200
    text = str(caught.value)
    assert text.startswith(
        f"cannot set sysctl {ESTABLISHED} to 3600: read-only file system; it is"
    )
    assert f"it is 7200 now: run `sysctl -w {ESTABLISHED}=3600` on the host" in text
    assert text.endswith("or leave the setting alone with conntrack.tcpEstablishedTimeout: 0s")


def test_what_belongs_to_the_machine_is_left_to_it(
    node: Namespace, capsys: pytest.CaptureFixture[str]
) -> None:
    with node.entered():
        assert is_fixed(MAX)
        before = read_sysctl(MAX)
        assert before is not None
        apply_settings([Sysctl(MAX, before + 1, "conntrack.maxPerCore: 0")])
        assert read_sysctl(MAX) == before
    said = capsys.readouterr().err
    assert "Sysctl can only be set in the machine's own network namespace" in said
    assert f'entry="net/netfilter/nf_conntrack_max" value={before} wanted={before + 1}' in said


def test_a_setting_that_the_kernel_lacks_is_the_end_with_advice(node: Namespace) -> None:
    missing = Sysctl("net.netfilter.nf_nonsense", 1, "conntrack.nonsense: 0")
    with node.entered(), pytest.raises(KernelError, match="load the kernel module that has it"):
        apply_settings([missing])


def test_a_value_that_the_kernel_refuses_is_the_end(node: Namespace) -> None:
    ttl = Sysctl("net.ipv4.ip_default_ttl", 70000, "nothing")
    with node.entered(), pytest.raises(KernelError, match="invalid argument; it is 64 now"):
        apply_settings([ttl])


def test_init_only_opens_the_way_to_localhost(node: Namespace) -> None:
    serving = NodeView(
        Family.IPV4, node_port_ranges=(prefix("0.0.0.0/0"),), localhost_node_ports=True
    )
    wanted = (
        load_mode("iptables").sysctls(KubeProxyConfiguration(), {Family.IPV4: serving}, "").wanted
    )
    with node.entered():
        assert read_sysctl(wanted[0].name) == 0
        apply_settings(wanted)
        assert read_sysctl(wanted[0].name) == 1


def test_the_kernel_takes_a_higher_oom_score_and_only_the_privileged_may_lower_it() -> None:
    child = os.fork()
    if child == 0:
        try:
            ensure_oom_score_adj(500)
            ensure_oom_score_adj(500)
            ensure_oom_score_adj(-999)  # needs CAP_SYS_RESOURCE outside of this user namespace
        except KernelError:
            os._exit(int(Path("/proc/self/oom_score_adj").read_text() != "500\n"))
        os._exit(int(Path("/proc/self/oom_score_adj").read_text() != "-999\n"))
    _, status = os.waitpid(child, 0)
    assert status == 0


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    document = {"kind": "Node", "apiVersion": "v1", **kestrel()}
    (tmp_path / "node.yaml").write_text(yaml.safe_dump(document))
    return tmp_path


def run(manifests: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [*KUBE_PROXY, f"--manifests={manifests}", f"--hostname-override={NODE_NAME}", *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)


def test_init_only_sets_and_ends(node: Namespace, manifests: Path) -> None:
    with node.entered():
        ran = run(manifests, "--init-only", *TIMEOUTS, "--conntrack-tcp-be-liberal")
        assert read_sysctl(ESTABLISHED) == 25200
        assert read_sysctl("net.netfilter.nf_conntrack_udp_timeout") == 47
        assert read_sysctl("net.netfilter.nf_conntrack_tcp_be_liberal") == 1
    assert ran.returncode == 0, ran.stderr
    assert "System initialized and --init-only specified" in ran.stderr


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        pytest.param((), 1, id="served-on-localhost"),
        pytest.param(("--iptables-localhost-nodeports=false",), 0, id="not-served-there"),
    ],
)
def test_init_only_in_iptables_mode_lets_packets_out_of_localhost(
    node: Namespace, manifests: Path, flags: tuple[str, ...], expected: int
) -> None:
    with node.entered():
        ran = run(manifests, "--init-only", "--proxy-mode=iptables", *flags)
        assert read_sysctl(ROUTE_LOCALNET) == expected
        assert "KUBE-" not in node.run(["iptables-save"])
    assert ran.returncode == 0, ran.stderr


def test_a_dry_run_sets_nothing(node: Namespace, manifests: Path) -> None:
    with node.entered():
        before = read_sysctl(ESTABLISHED)
        ran = run(manifests, "--init-only", "--dry-run", *TIMEOUTS)
        assert read_sysctl(ESTABLISHED) == before
    assert ran.returncode == 0, ran.stderr


def test_without_the_right_to_it_the_daemon_ends_with_one_clear_line(
    node: Namespace, manifests: Path
) -> None:
    with node.entered(), read_only():
        ran = run(manifests, "--init-only", *TIMEOUTS)
    complaints = [line for line in ran.stderr.splitlines() if line.startswith("E")]
    assert ran.returncode == 1
    assert f"cannot set sysctl {ESTABLISHED} to 25200: read-only file system" in complaints[-1]
    assert "Traceback" not in ran.stderr
