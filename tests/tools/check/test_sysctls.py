"""Settings of the kernel: those that the proxy makes, and those that others must."""

from collections.abc import Collection

import pytest

from kubeproxy.dataplane.preflight import NODE, Finding, Grade
from kubeproxy.dataplane.sysctls import Sysctl, Sysctls
from kubeproxy.tools.check.sysctls import (
    BRIDGE_IPV4,
    BRIDGE_IPV6,
    FORWARD_IPV4,
    FORWARD_IPV6,
    RP_FILTER,
    SysctlReading,
    mode_findings,
    operator_findings,
    proxy_findings,
)

MAX = "net.netfilter.nf_conntrack_max"
WANTED = Sysctl(MAX, 131072, "conntrack.maxPerCore: 0")
NO_FIELD = Sysctl("net.ipv4.vs.conntrack", 1, "")


def proxy(reading: SysctlReading, setting: Sysctl = WANTED, *, root: bool = True) -> Finding:
    (finding,) = proxy_findings(NODE, "settings", [setting], {setting.name: reading}, root=root)
    return finding


@pytest.mark.parametrize(
    ("reading", "expected"),
    [
        pytest.param(SysctlReading(131072), "max is 131072", id="as-it-should-be"),
        pytest.param(
            SysctlReading(65536, writable=True),
            "max is 65536 and will be 131072",
            id="will-be-set",
        ),
        pytest.param(
            SysctlReading(262144, fixed=True),
            "max stays 262144, as the machine has it",
            id="it-cannot-be-set-and-it-will-do",
        ),
    ],
)
def test_settings_that_are_well(reading: SysctlReading, expected: str) -> None:
    finding = proxy(reading)
    assert ("settings", Grade.OK, expected) == (finding.what, finding.state, finding.detail)


@pytest.mark.parametrize(
    ("reading", "root", "state", "detail"),
    [
        pytest.param(
            SysctlReading(), True, Grade.MISSING, "this kernel has no such setting", id="not-there"
        ),
        pytest.param(
            SysctlReading(65536, fixed=True),
            False,
            Grade.WARNING,
            "belongs to the machine",
            id="it-cannot-be-set",
        ),
        pytest.param(
            SysctlReading(65536), True, Grade.MISSING, "cannot be set from here", id="root"
        ),
        pytest.param(SysctlReading(65536), False, Grade.UNKNOWN, "only root sees", id="a-user"),
    ],
)
def test_settings_that_are_not(
    reading: SysctlReading, root: bool, state: Grade, detail: str
) -> None:
    finding = proxy(reading, root=root)
    assert (state, True) == (finding.state, detail in finding.detail)
    assert finding.remedy


def test_the_remedy_names_the_field_that_leaves_it_alone() -> None:
    assert proxy(SysctlReading(1)).remedy.endswith(
        ", or leave it alone with conntrack.maxPerCore: 0"
    )
    assert proxy(SysctlReading(0), NO_FIELD).remedy.endswith("run --init-only")


def test_what_is_well_is_one_finding_and_comes_first() -> None:
    other = Sysctl("net.netfilter.nf_conntrack_buckets", 32768, "")
    found = proxy_findings(
        NODE,
        "settings",
        [WANTED, other, NO_FIELD],
        {MAX: SysctlReading(1), other.name: SysctlReading(32768), NO_FIELD.name: SysctlReading(1)},
        root=True,
    )
    assert [("settings", "buckets is 32768, conntrack is 1"), (MAX, found[1].detail)] == [
        (finding.what, finding.detail) for finding in found
    ]


LOCALNET = Sysctl("net.ipv4.conf.all.route_localnet", 1, "iptables.localhostNodePorts: false")


@pytest.mark.parametrize(
    ("wanted", "reading", "expected"),
    [
        pytest.param([], SysctlReading(0), [], id="not-served-there"),
        pytest.param([LOCALNET], SysctlReading(1), [Grade.OK], id="set-already"),
        pytest.param([LOCALNET], SysctlReading(0), [Grade.WARNING], id="cannot-be-set"),
    ],
)
def test_node_ports_on_localhost_are_no_matter_of_life_and_death(
    wanted: list[Sysctl], reading: SysctlReading, expected: list[Grade]
) -> None:
    sysctls = Sysctls(tuple(wanted), "node ports on 127.0.0.1", "they are not served")
    found = mode_findings("iptables", sysctls, {LOCALNET.name: reading}, root=True)
    assert expected == [finding.state for finding in found]


MADE = {"nftables": (), "iptables": (), "ipvs": (FORWARD_IPV4,)}


def operator(devices: Collection[str] = (), **values: int) -> list[tuple[str, Grade]]:
    names = {
        "ipv4": FORWARD_IPV4,
        "ipv6": FORWARD_IPV6,
        "rp": RP_FILTER,
        "bridge": BRIDGE_IPV4,
        "bridge6": BRIDGE_IPV6,
    }
    readings = {names[name]: SysctlReading(value) for name, value in values.items()}
    return [(f.what, f.state) for f in operator_findings(readings, devices, MADE)]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(operator(), [], id="a-kernel-without-any-of-it"),
        pytest.param(
            operator(ipv4=1, ipv6=1),
            [(FORWARD_IPV4, Grade.OK), (FORWARD_IPV6, Grade.OK)],
            id="packets-are-forwarded",
        ),
        pytest.param(
            operator(ipv4=0, ipv6=0),
            [(FORWARD_IPV4, Grade.WARNING), (FORWARD_IPV6, Grade.WARNING)],
            id="packets-are-not-forwarded",
        ),
        pytest.param(operator(rp=2), [], id="loose-reverse-paths"),
        pytest.param(operator(rp=1), [(RP_FILTER, Grade.WARNING)], id="strict-reverse-paths"),
        pytest.param(
            operator(bridge=1, bridge6=1), [("br_netfilter", Grade.OK)], id="bridges-are-filtered"
        ),
        pytest.param(
            operator(bridge=1, bridge6=0),
            [(BRIDGE_IPV6, Grade.WARNING)],
            id="bridges-are-filtered-for-one-family",
        ),
        pytest.param(
            operator(["lo", "cni0"]),
            [("br_netfilter", Grade.WARNING)],
            id="pods-on-a-bridge-without-rules",
        ),
        pytest.param(operator(["docker0"]), [], id="a-bridge-that-is-not-of-pods"),
    ],
)
def test_settings_of_the_node(
    found: list[tuple[str, Grade]], expected: list[tuple[str, Grade]]
) -> None:
    assert expected == found


def test_ipvs_mode_turns_forwarding_on_by_itself() -> None:
    (finding,) = operator_findings({FORWARD_IPV4: SysctlReading(0)}, [], MADE)
    assert finding.modes == ("nftables", "iptables")


def test_forwarding_ipv6_is_advised_where_there_is_ipv6_and_routes_are_kept() -> None:
    (finding,) = operator_findings({FORWARD_IPV6: SysctlReading(0)}, [], MADE)
    assert finding.remedy.startswith("if pods have IPv6: sysctl -w net.ipv6.conf.all.forwarding=1")
    assert "first accept_ra=2" in finding.remedy
