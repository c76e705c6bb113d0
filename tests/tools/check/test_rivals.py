"""What others left, and what becomes of it."""

from collections.abc import Mapping, Sequence

import pytest

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.ipvs import leftovers as ipvs
from kubeproxy.dataplane.ipvs.settings import DEVICE
from kubeproxy.dataplane.mode import Mode
from kubeproxy.dataplane.modes import all_modes
from kubeproxy.dataplane.nftables import check as nftables
from kubeproxy.dataplane.preflight import Finding, Grade, Scan
from kubeproxy.dataplane.xtables_chains import Chains
from kubeproxy.tools.check.rivals import Sightings, rival_findings

*MODES, _ = all_modes()
NFTABLES, IPTABLES, IPVS = MODES
IPTABLES_MODE = ("KUBE-SERVICES", "KUBE-SVC-ABCDEFGHIJKLMNOP")
USERSPACE_MODE = ("KUBE-PORTALS-HOST", "KUBE-NODEPORT-HOST")
IPVS_MODE = ("KUBE-SERVICES", "KUBE-LOAD-BALANCER", "KUBE-NODE-PORT")


def seen_of(
    *,
    tables: Mapping[Family, bool] | None = None,
    chains: tuple[Chains, ...] = (),
    sets: tuple[str, ...] = (),
    servers: int = 0,
    devices: frozenset[str] = frozenset(),
    pins: tuple[str, ...] | None = (),
    kind: str = "nft",
    unseen: Mapping[str, str] | None = None,
) -> Sightings:
    scan = Scan(kind, devices)
    scan.chains = chains
    scan.unseen.update(unseen or {})
    return Sightings(
        scan,
        leftovers={
            "nftables": tuple(nftables.leftovers(tables or {})),
            "iptables": tuple(IPTABLES.leftovers(scan)),
            "ipvs": (
                *ipvs.chain_leftovers(chains, kind),
                *ipvs.leftovers(sets, servers, has_device=DEVICE in devices),
            ),
        },
        pins=pins,
    )


def found(seen: Sightings, modes: Sequence[Mode] = MODES) -> list[tuple[str, Grade, str, str]]:
    return [(f.what, f.state, f.detail, f.remedy) for f in rival_findings(seen, modes)]


def only(seen: Sightings, mode: Mode) -> Finding:
    (finding,) = rival_findings(seen, [mode])
    return finding


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(seen_of(), id="nothing"),
        pytest.param(
            seen_of(
                chains=(Chains("nft", has_hint=True),),
                devices=frozenset({"lo", "cni0"}),
                pins=("tcp_stats",),
            ),
            id="what-belongs-to-others",
        ),
        pytest.param(seen_of(pins=None), id="no-maps-to-be-seen-and-no-program-that-has-some"),
    ],
)
def test_nothing_was_found(seen: Sightings) -> None:
    assert found(seen) == [("rules of others", Grade.OK, "none found", "")]


def test_the_table_of_another_kube_proxy() -> None:
    seen = seen_of(tables={Family.IPV4: False, Family.IPV6: False})
    assert found(seen) == [
        (
            "nftables table kube-proxy",
            Grade.OK,
            (
                "another kube-proxy's, ip and ip6; nftables mode: replaced in one transaction;"
                " iptables and ipvs mode: removed after the first sync"
            ),
            "",
        )
    ]


def test_with_one_mode_in_mind_no_mode_is_named() -> None:
    seen = seen_of(tables={Family.IPV4: True})
    assert only(seen, NFTABLES).detail == (
        "this program's, ip; taken over, and what differs is written"
    )
    assert only(seen, IPVS).detail == "this program's, ip; removed after the first sync"


def test_tables_of_both() -> None:
    seen = seen_of(tables={Family.IPV4: True, Family.IPV6: False})
    assert [detail.split(";")[0] for _, _, detail, _ in found(seen)] == [
        "another kube-proxy's, ip6",
        "this program's, ip",
    ]


@pytest.mark.parametrize(
    ("chains", "mode", "state", "fate"),
    [
        pytest.param(
            Chains("nft", IPTABLES_MODE),
            NFTABLES,
            Grade.OK,
            "2 of iptables mode; removed after the first sync",
            id="removed-by-nftables-mode",
        ),
        pytest.param(
            Chains("nft", IPTABLES_MODE, removable=False),
            NFTABLES,
            Grade.WARNING,
            "2 of iptables mode; nothing here can remove them",
            id="no-programs-to-remove-them",
        ),
        pytest.param(
            Chains("nft", IPTABLES_MODE),
            IPTABLES,
            Grade.OK,
            "2 of iptables mode; taken over, without a gap",
            id="taken-over-by-their-own-mode",
        ),
        pytest.param(
            Chains("nft", IPTABLES_MODE),
            IPVS,
            Grade.WARNING,
            "2 of iptables mode; those that are not used any more stay",
            id="not-removed-by-ipvs-mode",
        ),
        pytest.param(
            Chains("nft", IPVS_MODE),
            IPVS,
            Grade.OK,
            "3 of ipvs mode; taken over, without a gap",
            id="those-of-ipvs-mode-are-taken-over-by-it",
        ),
        pytest.param(
            Chains("nft", IPVS_MODE),
            IPTABLES,
            Grade.WARNING,
            "3 of ipvs mode; those that are not used any more stay",
            id="those-of-ipvs-mode-stay-in-iptables-mode",
        ),
        pytest.param(
            Chains("nft", USERSPACE_MODE),
            IPTABLES,
            Grade.WARNING,
            "2 of userspace mode; those that are not used any more stay",
            id="those-of-userspace-mode-are-taken-over-by-none",
        ),
        pytest.param(
            Chains("nft", USERSPACE_MODE),
            NFTABLES,
            Grade.OK,
            "2 of userspace mode; removed after the first sync",
            id="those-of-userspace-mode-are-removed-too",
        ),
        pytest.param(
            Chains("legacy", IPTABLES_MODE),
            IPTABLES,
            Grade.WARNING,
            "2 of iptables mode; they stay beside those of iptables-nft, and both are in force",
            id="of-another-kind-than-the-programs",
        ),
        pytest.param(
            Chains("legacy", IPTABLES_MODE),
            IPVS,
            Grade.WARNING,
            "2 of iptables mode; they stay beside those of iptables-nft, and both are in force",
            id="of-another-kind-and-of-another-mode",
        ),
    ],
)
def test_chains(chains: Chains, mode: Mode, state: Grade, fate: str) -> None:
    finding = only(seen_of(chains=(chains,)), mode)
    assert (f"iptables-{chains.kind} chains", state, fate) == (
        finding.what,
        finding.state,
        finding.detail,
    )
    assert bool(finding.remedy) is (state is Grade.WARNING)


def test_chains_of_one_mode_below_those_of_another() -> None:
    """The node went from iptables to ipvs mode without a cleanup."""
    seen = seen_of(chains=(Chains("nft", (*IPVS_MODE, *IPTABLES_MODE[1:])),))
    taken, stays = "taken over, without a gap", "those that are not used any more stay"
    for mode, of_ipvs, of_iptables in (
        (IPVS, taken, stays),
        (IPTABLES, stays, taken),
    ):
        assert [f"1 of iptables mode; {of_iptables}", f"3 of ipvs mode; {of_ipvs}"] == [
            finding.detail for finding in rival_findings(seen, [mode])
        ]


@pytest.mark.parametrize(
    ("mode", "detail", "remedy"),
    [
        pytest.param(
            IPTABLES,
            "2 of iptables mode; taken over by iptables-nft, once that is installed",
            "",
            id="their-own-mode",
        ),
        pytest.param(
            IPVS,
            "2 of iptables mode; those that are not used any more stay",
            (
                "install iptables (iptables-nft-save and -restore, and ip6tables' too); then stop"
                " the old proxy and run `kube-proxy --cleanup` before the new one starts"
            ),
            id="another-mode",
        ),
        pytest.param(
            NFTABLES,
            "2 of iptables mode; nothing here can remove them",
            "install iptables (iptables-nft-save and -restore, and ip6tables' too)",
            id="nftables-mode",
        ),
    ],
)
def test_chains_without_programs_for_them(mode: Mode, detail: str, remedy: str) -> None:
    """What --cleanup could not do here, it is not said to do."""
    chains = Chains("nft", IPTABLES_MODE, removable=False)
    finding = only(seen_of(chains=(chains,), kind=""), mode)
    assert (detail, remedy) == (finding.detail, finding.remedy)


def test_a_finding_is_of_the_modes_that_share_it() -> None:
    seen = seen_of(chains=(Chains("nft", IPTABLES_MODE),))
    assert [(f.state, f.modes) for f in rival_findings(seen, MODES)] == [
        (Grade.OK, ("nftables", "iptables")),
        (Grade.WARNING, ("ipvs",)),
    ]


@pytest.mark.parametrize(
    ("kind", "hinted", "expected"),
    [
        pytest.param("nft", "nft", 0, id="the-same-kind"),
        pytest.param("", "legacy", 0, id="no-programs"),
        pytest.param("nft", "legacy", 1, id="another-kind"),
    ],
)
def test_the_kubelet_hints_which_iptables_it_uses(kind: str, hinted: str, expected: int) -> None:
    seen = seen_of(chains=(Chains(hinted, has_hint=True),), kind=kind)
    findings = [f for f in rival_findings(seen, MODES) if f.what == "kubelet"]
    assert expected == len(findings)
    for finding in findings:
        assert finding.modes == ("iptables", "ipvs")
        assert finding.detail == "it uses iptables-legacy, and the programs here are iptables-nft"


@pytest.mark.parametrize(
    ("seen", "mode", "expected"),
    [
        pytest.param(
            seen_of(sets=("KUBE-IPVS-IPS",)),
            IPTABLES,
            (Grade.WARNING, "ipsets KUBE-* (1); all stays"),
            id="sets-alone",
        ),
        pytest.param(
            seen_of(
                sets=("KUBE-IPVS-IPS", "KUBE-CLUSTER-IP"),
                devices=frozenset({"kube-ipvs0"}),
                servers=24,
            ),
            IPTABLES,
            (
                Grade.WARNING,
                (
                    "ipsets KUBE-* (2), device kube-ipvs0, virtual servers (24);"
                    " all stays, and the node answers for its addresses"
                ),
            ),
            id="all-of-it",
        ),
        pytest.param(
            seen_of(devices=frozenset({"kube-ipvs0"})),
            NFTABLES,
            (Grade.OK, "device kube-ipvs0; removed after the first sync"),
            id="the-device-alone",
        ),
        pytest.param(
            seen_of(servers=3),
            NFTABLES,
            (Grade.OK, "3 of other programs; left alone"),
            id="virtual-servers-of-others",
        ),
        pytest.param(
            seen_of(servers=3),
            IPVS,
            (Grade.WARNING, "3 of other programs; deleted, unless excluded"),
            id="virtual-servers-of-others-in-ipvs-mode",
        ),
    ],
)
def test_what_ipvs_mode_leaves(seen: Sightings, mode: Mode, expected: tuple[Grade, str]) -> None:
    finding = only(seen, mode)
    assert expected == (finding.state, finding.detail)


@pytest.mark.parametrize(
    ("seen", "what", "state"),
    [
        pytest.param(
            seen_of(devices=frozenset({"cilium_host"}), pins=("cilium_lxc",)),
            "Cilium",
            Grade.OK,
            id="cilium-without-node-ports",
        ),
        pytest.param(
            seen_of(devices=frozenset({"cilium_host"}), pins=("cilium_nodeport_neigh4",)),
            "Cilium",
            Grade.WARNING,
            id="cilium-with-node-ports",
        ),
        pytest.param(
            seen_of(devices=frozenset({"cilium_host"}), pins=None),
            "Cilium",
            Grade.UNKNOWN,
            id="cilium-from-inside-a-container",
        ),
        pytest.param(
            seen_of(pins=("cali_v4_nat_fe3",)),
            "Calico's eBPF dataplane",
            Grade.WARNING,
            id="calico-by-its-maps",
        ),
        pytest.param(
            seen_of(devices=frozenset({"bpfin.cali"}), pins=None),
            "Calico's eBPF dataplane",
            Grade.WARNING,
            id="calico-by-its-device",
        ),
        pytest.param(
            seen_of(devices=frozenset({"kube-dummy-if"})),
            "kube-router",
            Grade.WARNING,
            id="kube-router",
        ),
    ],
)
def test_other_programs_that_serve_services(seen: Sightings, what: str, state: Grade) -> None:
    finding = only(seen, NFTABLES)
    assert (what, state) == (finding.what, finding.state)


def test_what_could_not_be_seen_is_not_taken_to_be_absent() -> None:
    seen = seen_of(
        unseen={"ipsets": "run as root", "nftables tables": "run as root", "chains": "install it"}
    )
    assert found(seen) == [
        (
            "rules of others",
            Grade.UNKNOWN,
            "could not be looked at: ipsets, nftables tables",
            "run as root",
        ),
        ("rules of others", Grade.UNKNOWN, "could not be looked at: chains", "install it"),
    ]
