"""ipvs mode from the command line: its settings, and what it needs."""

from pathlib import Path

import pytest

from fakes.ipvs import FakeKernel
from kubeproxy.app import wiring
from kubeproxy.app.wiring import Setup
from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.config.flags import parse_flags
from kubeproxy.config.load import load
from kubeproxy.dataplane.ipvs.apply import IpvsDataplane
from kubeproxy.dataplane.ipvs.mode import settings
from kubeproxy.dataplane.ipvs.settings import IpvsSettings, Timeouts
from kubeproxy.dataplane.modes import MODES
from kubeproxy.linux import ipvs
from kubeproxy.linux.xtables import Xtables, XtablesFailed
from world import prefix

FLAGS = (
    "--ipvs-scheduler=wlc",
    "--ipvs-exclude-cidrs=192.0.2.0/24,fd99::/64",
    "--ipvs-strict-arp",
    "--ipvs-tcp-timeout=15m",
    "--ipvs-tcpfin-timeout=1m30s",
    "--ipvs-udp-timeout=5s",
    "--iptables-masquerade-bit=12",
)


def setup_of(*flags: str) -> Setup:
    parsed = parse_flags(["--proxy-mode=ipvs", *flags])
    return wiring.setup_of(parsed, load(parsed, MODES), b"")


def settings_of(*flags: str) -> IpvsSettings:
    return settings(load(parse_flags(["--proxy-mode=ipvs", *flags]), MODES).config)


def test_settings() -> None:
    excluded = (prefix("192.0.2.0/24"), prefix("fd99::/64"))
    expected = IpvsSettings(12, "wlc", excluded, strict_arp=True, timeouts=Timeouts(900, 90, 5))
    assert expected == settings_of(*FLAGS)
    assert IpvsSettings() == settings_of()


def test_a_family_without_programs_is_not_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(programs: Xtables) -> None:
        if programs.family is Family.IPV6:
            raise XtablesFailed("ip6tables is not installed")

    kernel = FakeKernel()
    monkeypatch.setattr(wiring, "supported_families", lambda: tuple(Family))
    monkeypatch.setattr(Xtables, "check", check)
    monkeypatch.setattr(ipvs, "Ipvs", lambda: kernel.servers)
    setup = setup_of(f"--manifests={tmp_path}")
    assert setup.families == (Family.IPV4,)
    with kernel.installed():
        assert isinstance(setup.dataplane(Family.IPV4), IpvsDataplane)
    assert kernel.sysctls["net.ipv4.vs.conntrack"] == 1


def test_a_kernel_that_lacks_the_scheduler_is_refused_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = FakeKernel()
    monkeypatch.setattr(Xtables, "check", lambda _programs: None)
    monkeypatch.setattr(ipvs, "Ipvs", lambda: kernel.servers)
    setup = setup_of(f"--manifests={tmp_path}", "--ipvs-scheduler=nonsense")
    with kernel.installed(), pytest.raises(KernelError, match="no ipvs scheduler nonsense"):
        setup.dataplane(Family.IPV4)
    assert kernel.sysctls == {}
