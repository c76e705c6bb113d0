"""Kernel modules that are not loaded, and what that means."""

import pytest

from kubeproxy.dataplane.ipvs.modules import (
    harmless,
    schedulers,
    unloaded_dummy,
    without_ip_vs,
)
from kubeproxy.dataplane.preflight import Grade, Modules, modules_in

DEPENDENCIES = """\
kernel/net/netfilter/ipvs/ip_vs.ko.xz: kernel/net/netfilter/nf_conntrack.ko.xz kernel/lib/crc.ko
kernel/net/netfilter/ipvs/ip_vs_rr.ko: kernel/net/netfilter/ipvs/ip_vs.ko
kernel/drivers/net/hyper-v.ko.zst:
"""
BUILT_IN = "kernel/drivers/net/dummy.ko\nbridge.ko\n"
BOTH = frozenset({"ip_vs", "ip_vs_rr"})


def test_names_in_the_lists() -> None:
    assert modules_in(DEPENDENCIES) == {"ip_vs", "ip_vs_rr", "hyper_v"}
    assert modules_in(BUILT_IN) == {"dummy", "bridge"}
    assert modules_in("") == frozenset()


@pytest.mark.parametrize(
    ("modules", "state", "detail"),
    [
        pytest.param(Modules(), Grade.MISSING, "its list of modules is not here", id="no-list"),
        pytest.param(
            Modules(frozenset()), Grade.MISSING, "the kernel has no ip_vs", id="no-module"
        ),
        pytest.param(
            Modules(frozenset({"ip_vs"})),
            Grade.MISSING,
            "the kernel has no ip_vs_rr",
            id="no-module-for-the-scheduler",
        ),
        pytest.param(
            Modules(BOTH, loads=True), Grade.OK, "the proxy does that", id="the-proxy-loads-it"
        ),
        pytest.param(
            Modules(BOTH), Grade.MISSING, "may not load it", id="the-operator-must-load-it"
        ),
    ],
)
def test_no_ip_vs_in_the_kernel(modules: Modules, state: Grade, detail: str) -> None:
    finding = without_ip_vs(modules, "rr")
    assert (state, True) == (finding.state, detail in finding.detail)
    assert ("modprobe ip_vs ip_vs_rr" in finding.remedy + finding.detail) is True


@pytest.mark.parametrize(
    ("modules", "expected"),
    [
        pytest.param(Modules(), True, id="it-is-not-known"),
        pytest.param(Modules(frozenset({"dummy"})), True, id="there-is-a-module"),
        pytest.param(Modules(frozenset({"bridge"})), False, id="there-is-none"),
        pytest.param(Modules(None, frozenset({"dummy"})), False, id="it-is-loaded-already"),
    ],
)
def test_what_the_kernel_might_load(modules: Modules, expected: bool) -> None:
    assert expected is modules.might_load("dummy")


@pytest.mark.parametrize(
    ("available", "expected"),
    [
        pytest.param(None, Grade.UNTRIED, id="no-list"),
        pytest.param(frozenset({"dummy"}), Grade.OK, id="the-kernel-loads-it"),
    ],
)
def test_dummy_devices_that_are_not_tried(
    available: frozenset[str] | None, expected: Grade
) -> None:
    assert expected is unloaded_dummy(Modules(available)).state


@pytest.mark.parametrize(
    ("modules", "expected"),
    [
        pytest.param(Modules(None, frozenset({"ip_vs_wlc"})), [], id="no-list-of-modules"),
        pytest.param(Modules(frozenset(), frozenset()), [], id="a-kernel-without-any"),
        pytest.param(
            Modules(BOTH | {"ip_vs_ftp", "ip_vs_pe_sip"}, frozenset({"ip_vs_wlc"})),
            ["rr, wlc"],
            id="those-that-are-there-and-those-that-could-be",
        ),
    ],
)
def test_schedulers(modules: Modules, expected: list[str]) -> None:
    assert expected == [finding.detail for finding in schedulers(modules)]


def test_no_rule_has_br_netfilter_loaded() -> None:
    rules = "-A A -m physdev ! --physdev-is-in -j B\n-A A -j C\n"
    assert harmless(rules, Modules()) == "-A A -j C\n"
    assert harmless(rules, Modules(present=frozenset({"br_netfilter"}))) == rules
