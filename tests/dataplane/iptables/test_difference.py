"""What another program did to the rules, as lines with the service that suffers."""

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from dataplane.iptables.clusters import CLUSTERS, kestrel, table
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.difference import Change, Difference
from kubeproxy.dataplane.iptables.difference import drift
from kubeproxy.dataplane.iptables.setup import Options
from kubeproxy.table.entries import Table

GOLDEN = Path(__file__).with_name("golden")


def saved(name: str, family: Family = Family.IPV4) -> list[str]:
    """What the kernel lists when it is as the cluster wants it."""
    return (GOLDEN / f"{name}.{family.value}.saved").read_text().splitlines()


def drift_of(lines: Iterable[str], wanted: Table) -> list[Difference]:
    """What differs in a kernel with these rules."""
    tables: dict[str, str] = {}
    name = ""
    for line in lines:
        name = line[1:] if line.startswith("*") else name
        tables[name] = f"{tables.get(name, '')}{line}\n"
    return drift(tables, wanted, kestrel(wanted.family), Options())


def shown(lines: Iterable[str], wanted: Table) -> list[str]:
    found = drift_of(lines, wanted)
    signs = {Change.ADD: "+", Change.REMOVE: "-"}
    return [
        f"{signs[each.change]} {each.object}"
        + (f" | {each.service_port}" if each.service_port else "")
        for each in found
    ]


@pytest.mark.parametrize("family", Family)
@pytest.mark.parametrize("name", CLUSTERS)
def test_what_the_kernel_lists_is_what_was_written(name: str, family: Family) -> None:
    assert shown(saved(name, family), table(name, family)) == []


# --- what another program did ------------------------------------------------------------------

CART, CLOSED = "mall/cart:tcp-80", "mall/closed:tcp-80"
SVC, SEP = "KUBE-SVC-NP3THCYCAERPCCLW", "KUBE-SEP-RGDBQLDM2PA2E6GU"
LED = (
    f'-A KUBE-SERVICES -d 10.112.0.21/32 -p tcp -m comment --comment "{CART} cluster IP"'
    f" -m tcp --dport 80 -j {SVC}"
)
LEADS = (
    f'-A KUBE-SERVICES -m comment --comment "{CART} cluster IP" -m tcp -p tcp -d 10.112.0.21'
    f" --dport 80 -j {SVC}"
)
REFUSED = (
    "-A KUBE-SERVICES -d 10.112.0.23/32 -p tcp -m comment --comment"
    f' "{CLOSED} has no endpoints" -m tcp --dport 80 -j REJECT'
    " --reject-with icmp-port-unreachable"
)
REFUSES = (
    f'-A KUBE-SERVICES -m comment --comment "{CLOSED} has no endpoints" -m tcp -p tcp'
    " -d 10.112.0.23 --dport 80 -j REJECT"
)
LAST = f'-A {SVC} -m comment --comment "{CART} -> 10.66.9.31:8080" -j {SEP}'
HAIRPIN = f'-A {SEP} -s 10.66.9.31/32 -m comment --comment "{CART}" -j KUBE-MARK-MASQ'
HAIRPINS = f'-A {SEP} -m comment --comment "{CART}" -s 10.66.9.31 -j KUBE-MARK-MASQ'
SENT = (
    f'-A {SEP} -p tcp -m comment --comment "{CART}" -m tcp -j DNAT'
    " --to-destination 10.66.9.31:8080"
)
SENDS = (
    f'-A {SEP} -m comment --comment "{CART}" -m tcp -p tcp -j DNAT'
    " --to-destination 10.66.9.31:8080"
)
JUMP = '-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING'
JUMPS = "-I POSTROUTING -m comment --comment 'kubernetes postrouting rules' -j KUBE-POSTROUTING"


class Edit(msgspec.Struct, frozen=True):
    """Lines that go, and lines that come behind others."""

    gone: tuple[str, ...] = ()
    come: tuple[tuple[str, str], ...] = ()

    def applied(self, lines: list[str]) -> list[str]:
        assert {*self.gone, *(after for after, _ in self.come)} <= {*lines}
        behind = dict(self.come)
        edited: list[str] = []
        for line in lines:
            edited += [] if line in self.gone else [line]
            edited += [behind[line]] if line in behind else []
        return edited


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        pytest.param(Edit(gone=(LED,)), [f"+ -t nat {LEADS} | {CART}"], id="rule-gone"),
        pytest.param(
            Edit(gone=(REFUSED,)),
            [f"+ -t filter {REFUSES} | {CLOSED}"],
            id="a-refusal-gone-is-its-service's-all-the-same",
        ),
        pytest.param(
            Edit(come=((LAST, f"-A {SVC} -j RETURN"),)),
            [f"- -t nat -A {SVC} -j RETURN | {CART}"],
            id="rule-added-to-the-chain-of-a-service",
        ),
        pytest.param(
            Edit(come=((LED, "-A KUBE-SERVICES -s 192.0.2.7/32 -j DROP"),)),
            ["- -t nat -A KUBE-SERVICES -s 192.0.2.7/32 -j DROP"],
            id="rule-added-elsewhere",
        ),
        pytest.param(
            Edit(come=((LED, LED),)), [f"- -t nat {LED} | {CART}"], id="rule-that-is-there-twice"
        ),
        pytest.param(
            Edit(gone=(SENT,), come=((HAIRPIN, SENT.replace("8080", "8081")),)),
            [
                f"- -t nat {SENT.replace('8080', '8081')} | {CART}",
                f"+ -t nat {SENDS} | {CART}",
            ],
            id="rule-that-says-something-else",
        ),
        pytest.param(
            Edit(gone=(HAIRPIN,), come=((SENT, HAIRPIN),)),
            [f"+ -t nat {HAIRPINS} | {CART}", f"- -t nat {HAIRPIN} | {CART}"],
            id="rules-in-another-order",
        ),
        pytest.param(
            Edit(gone=(f":{SEP} -", HAIRPIN, SENT, LAST)),
            [
                f"+ -t nat {LAST} | {CART}",
                f"+ -t nat -N {SEP} | {CART}",
                f"+ -t nat {HAIRPINS} | {CART}",
                f"+ -t nat {SENDS} | {CART}",
            ],
            id="chain-gone",
        ),
        pytest.param(Edit(gone=(JUMP,)), [f"+ -t nat {JUMPS}"], id="jump-gone"),
        pytest.param(
            Edit(
                come=(
                    (":KUBE-MARK-MASQ -", ":KUBE-SVC-OLD -"),
                    (LED, "-A KUBE-SVC-OLD -j RETURN"),
                )
            ),
            ["- -t nat -A KUBE-SVC-OLD -j RETURN", "- -t nat -N KUBE-SVC-OLD"],
            id="chain-of-a-service-that-is-gone",
        ),
    ],
)
def test_what_another_program_did_is_shown(edit: Edit, expected: list[str]) -> None:
    assert shown(edit.applied(saved("cluster-ip")), table("cluster-ip", Family.IPV4)) == expected


def test_rules_of_others_are_ignored() -> None:
    lines = saved("cluster-ip")
    edit = Edit(come=((JUMP, "-A POSTROUTING -j MASQUERADE"), (LED, "-A THEIRS -j DROP")))
    assert shown(edit.applied(lines), table("cluster-ip", Family.IPV4)) == []


def test_a_chain_that_only_a_jump_needs() -> None:
    """Where node ports are not served on localhost, the chain is made and left to others."""
    lines = saved("nothing", Family.IPV6)
    jumps = [line for line in lines if line.endswith(" -j KUBE-FIREWALL")]
    edit = Edit(gone=(":KUBE-FIREWALL -", *jumps))
    assert shown(edit.applied(lines), table("nothing", Family.IPV6)) == [
        "+ -t filter -N KUBE-FIREWALL",
        "+ -t filter -I INPUT -j KUBE-FIREWALL",
        "+ -t filter -I OUTPUT -j KUBE-FIREWALL",
    ]


def test_an_empty_kernel() -> None:
    found = shown(["*filter", "*nat"], table("cluster-ip", Family.IPV4))
    assert f"+ -t nat {LEADS} | {CART}" in found
    assert "+ -t filter -N KUBE-PROXY-FIREWALL" in found
    assert all(line.startswith("+ ") for line in found)


def test_a_kernel_without_any_of_the_chains_has_been_asked_in_the_wrong_way_perhaps() -> None:
    """People run the command on the node, and the proxy in a container with other programs."""
    empty = ["*filter", ":INPUT ACCEPT [0:0]", "COMMIT", "*nat", ":INPUT ACCEPT [0:0]", "COMMIT"]
    first, *others = drift_of(empty, table("cluster-ip", Family.IPV4))
    assert first.object.startswith("-t filter -N KUBE-")
    assert "another kind of iptables" in first.reason
    assert {each.reason for each in others} == {""}
