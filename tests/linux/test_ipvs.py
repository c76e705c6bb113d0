"""A kernel without ip_vs. Every kernel has generic netlink; none has a subsystem of that name."""

from pathlib import Path

import pytest

from fakes.programs import only_in
from kubeproxy.base.inet import Family
from kubeproxy.linux.ipvs import Ipvs, IpvsMissing
from kubeproxy.linux.netlink import ipvs as codec


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that holds all programs there are."""
    monkeypatch.setattr(codec, "FAMILY_NAME", "NOT-IPVS")
    only_in(tmp_path, monkeypatch)
    return tmp_path


@pytest.mark.usefixtures("programs")
def test_what_to_do_is_said() -> None:
    with pytest.raises(IpvsMissing) as raised:
        Ipvs().check("rr")
    for words in ("`modprobe ip_vs`", "CONFIG_IP_VS", "another proxy mode: nftables or iptables"):
        assert words in str(raised.value)


@pytest.fixture
def asked(programs: Path) -> Path:
    """What modprobe, which never succeeds, was asked for."""
    modprobe = programs / "modprobe"
    modprobe.write_text(f'#!/bin/sh\necho "$@" >{programs}/asked\necho "not found" >&2\nexit 1\n')
    modprobe.chmod(0o755)
    return programs / "asked"


def test_the_module_is_loaded_if_that_can_be(
    asked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(IpvsMissing, match="the kernel has no ip_vs"):
        Ipvs().check("rr")
    assert asked.read_text() == "-va ip_vs\n"
    assert "exit code 1: not found" in capsys.readouterr().err


def test_reading_loads_nothing(asked: Path) -> None:
    with pytest.raises(IpvsMissing), Ipvs() as servers:
        servers.servers(Family.IPV4)
    assert not asked.exists()
