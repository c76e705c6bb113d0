"""The node, as every user can read it."""

import os
import socket
from pathlib import Path

import pytest

from fakes import programs
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.preflight import Grade
from kubeproxy.tools.check import host


def test_a_listener_and_its_process_are_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        (found,) = [each for each in host.listeners() if each.port == port]
        owners = host.owners({found.inode})
    assert found.address == "127.0.0.1"
    assert owners[found.inode].endswith(f"(pid {os.getpid()})")


def test_without_sockets_no_process_is_looked_at(tmp_path: Path) -> None:
    assert host.owners(set(), str(tmp_path)) == {}


def test_processes_that_come_and_go_are_passed_over(tmp_path: Path) -> None:
    gone, there = tmp_path / "7", tmp_path / "8"
    gone.mkdir()
    (there / "fd").mkdir(parents=True)
    (there / "fd" / "0").write_text("no link")
    (there / "fd" / "1").symlink_to("socket:[4711]")
    assert host.owners({4711}, str(tmp_path)) == {4711: "a process (pid 8)"}
    (there / "cmdline").write_bytes(b"/opt/bin/python3\0/usr/bin/kube-proxy\0--v=2\0")
    assert host.owners({4711}, str(tmp_path)) == {4711: "python3 kube-proxy (pid 8)"}
    (there / "cmdline").write_bytes(b"/usr/local/bin/kube-proxy\0--config=/var/lib/config\0")
    assert host.owners({4711}, str(tmp_path)) == {4711: "kube-proxy (pid 8)"}


def test_settings_as_they_are() -> None:
    found = host.readings(["net.ipv4.ip_forward", "net.ipv4.no_such_setting"])
    assert found["net.ipv4.ip_forward"].value in {0, 1}
    assert (
        found["net.ipv4.no_such_setting"].value,
        found["net.ipv4.no_such_setting"].writable,
    ) == (None, False)


def test_modules_of_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_KERNEL_HAS_MODULES", tmp_path)
    assert host.available_modules("6.1", tmp_path) is None
    (tmp_path / "6.1").mkdir()
    (tmp_path / "6.1" / "modules.dep").write_text("kernel/net/ip_vs.ko: kernel/lib/crc.ko\n")
    (tmp_path / "6.1" / "modules.builtin").write_text("kernel/drivers/net/dummy.ko\n")
    assert host.available_modules("6.1", tmp_path) == frozenset({"ip_vs"})
    assert "dummy" in host.present_modules("6.1", tmp_path)
    assert "dummy" not in host.present_modules("5.0", tmp_path) - _loaded()


def test_a_kernel_without_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_KERNEL_HAS_MODULES", tmp_path / "modules")
    assert host.available_modules("6.1", tmp_path) == frozenset()


def _loaded() -> set[str]:
    return {module.name for module in Path("/sys/module").iterdir()}


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that is the whole PATH."""
    programs.only_in(tmp_path, monkeypatch)
    return tmp_path


def install(path: Path, name: str, script: str) -> None:
    for verb in ("", "-save", "-restore"):
        programs.install(path, f"{name}{verb}", script)


def test_no_programs_at_all(path: Path) -> None:
    found = host.programs(tuple(Family))
    assert found.kind == ""
    assert [finding.state for finding in found.findings] == [Grade.MISSING, Grade.MISSING]
    ipv4, _ = found.findings
    assert "iptables, iptables-save, iptables-restore are not installed" in ipv4.detail
    assert path.exists()


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        pytest.param("iptables v1.8.9 (nf_tables)", "nft", id="nft"),
        pytest.param("iptables v1.8.9 (legacy)", "legacy", id="legacy"),
        pytest.param("iptables v1.6.2", "legacy", id="before-there-were-two"),
    ],
)
def test_programs_of_one_family(path: Path, version: str, kind: str) -> None:
    install(path, "iptables", f"echo '{version}'")
    found = host.programs(tuple(Family))
    assert found.kind == kind
    assert [finding.state for finding in found.findings] == [Grade.OK, Grade.WARNING]
    assert version in found.findings[0].detail


def test_programs_that_are_too_old(path: Path) -> None:
    install(path, "iptables", "echo 'iptables v1.6.1'")
    (finding,) = host.programs((Family.IPV4,)).findings
    assert finding.state is Grade.MISSING
    assert finding.detail.startswith("iptables v1.6.1 is too old, 1.6.2 or later is needed")
    assert finding.remedy == "install a newer one, or choose nftables"


def test_programs_that_fail(path: Path) -> None:
    install(path, "iptables", "exit 3")
    (finding,) = host.programs((Family.IPV4,)).findings
    assert finding.state is Grade.MISSING
    assert finding.detail == f"{path}/iptables --version: exit code 3: no output on stderr"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        pytest.param("kill -9 $$", "killed by SIGKILL", id="killed"),
        pytest.param("exec /bin/sleep 60", "did not end within 0.5 seconds", id="does-not-end"),
    ],
)
def test_programs_that_do_not_come_to_their_end_say_nothing_about_the_node(
    path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    monkeypatch.setattr(host, "_SECONDS", 0.5)
    install(path, "iptables", script)
    (finding,) = host.programs((Family.IPV4,)).findings
    assert finding.state is Grade.UNTRIED
    assert why in finding.detail
    assert finding.remedy.startswith("run this check again")
