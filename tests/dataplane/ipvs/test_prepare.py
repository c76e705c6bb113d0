"""What is seen to once, before the first sync."""

import pytest

from fakes.ipvs import FakeKernel
from kubeproxy.base import klog
from kubeproxy.base.errors import KernelError
from kubeproxy.dataplane.ipvs.prepare import prepare
from kubeproxy.dataplane.ipvs.settings import IpvsSettings, Timeouts

ALWAYS = {
    "net.ipv4.vs.conntrack": 1,
    "net.ipv4.vs.expire_nodest_conn": 1,
    "net.ipv4.vs.expire_quiescent_template": 1,
    "net.ipv4.ip_forward": 1,
}
REUSE = "net.ipv4.vs.conn_reuse_mode"


def prepared(settings: IpvsSettings, release: str = "6.1.0-13-amd64") -> FakeKernel:
    kernel = FakeKernel()
    with kernel.installed():
        prepare(kernel.servers, settings, release)
    return kernel


@pytest.mark.parametrize(
    ("settings", "release", "expected"),
    [
        pytest.param(IpvsSettings(), "6.1.0-13-amd64", ALWAYS, id="today"),
        pytest.param(IpvsSettings(), "5.9.0", ALWAYS, id="the-first-that-is-quick"),
        pytest.param(IpvsSettings(), "5.8.17+", {**ALWAYS, REUSE: 0}, id="the-last-that-is-slow"),
        pytest.param(IpvsSettings(), "4.1.0", {**ALWAYS, REUSE: 0}, id="the-first-that-has-it"),
        pytest.param(IpvsSettings(), "4.0.9", ALWAYS, id="too-old"),
        pytest.param(IpvsSettings(), "unknown", ALWAYS, id="a-release-that-says-nothing"),
        pytest.param(
            IpvsSettings(strict_arp=True),
            "6.1.0",
            {
                **ALWAYS,
                "net.ipv4.conf.all.arp_ignore": 1,
                "net.ipv4.conf.all.arp_announce": 2,
            },
            id="strict-arp",
        ),
    ],
)
def test_sysctls(settings: IpvsSettings, release: str, expected: dict[str, int]) -> None:
    kernel = prepared(settings, release)
    assert expected == kernel.sysctls
    assert kernel.sets.checked == 1
    assert kernel.servers.timeouts is None


def test_what_is_set_already_is_not_mentioned(capsys: pytest.CaptureFixture[str]) -> None:
    kernel = FakeKernel()
    kernel.sysctls = dict(ALWAYS)
    klog.configure(klog.LogSettings(verbosity=1))
    with kernel.installed():
        prepare(kernel.servers, IpvsSettings(strict_arp=True), "6.1.0")
    said = capsys.readouterr().err
    assert said.count("Set sysctl") == 2
    assert "arp_ignore" in said


def test_an_old_kernel_is_mentioned(capsys: pytest.CaptureFixture[str]) -> None:
    prepared(IpvsSettings(), "3.10.0-1160.el7.x86_64")
    assert "4.1 or later is needed" in capsys.readouterr().err


def test_timeouts_are_set_together_when_any_is_given() -> None:
    kernel = prepared(IpvsSettings(timeouts=Timeouts(udp=60)))
    assert kernel.servers.timeouts == (0, 0, 60)


def test_timeouts_that_cannot_be_set_are_no_reason_to_stop(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kernel = FakeKernel()
    kernel.servers.unreadable = "not permitted"
    with kernel.installed():
        prepare(kernel.servers, IpvsSettings(timeouts=Timeouts(tcp=900)), "6.1.0")
    assert '"Failed to set the timeouts of ipvs" err="not permitted"' in capsys.readouterr().err


def test_a_scheduler_that_the_kernel_lacks_is_one() -> None:
    with pytest.raises(KernelError, match="no ipvs scheduler nonsense"):
        prepared(IpvsSettings(scheduler="nonsense"))


def test_rules_that_cannot_look_into_sets_are_the_end() -> None:
    kernel = FakeKernel()
    kernel.sets.can_match = False
    with kernel.installed(), pytest.raises(KernelError, match="CAP_NET_RAW is missing"):
        prepare(kernel.servers, IpvsSettings(), "6.1.0")
    assert kernel.sysctls == {}
