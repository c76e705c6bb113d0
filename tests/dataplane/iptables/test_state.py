"""A partial sync writes little, and leads to the same rules as a full one."""

import msgspec
import pytest

from dataplane.iptables.clusters import CLUSTERS, kestrel, table
from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.iptables.parse import Found
from kubeproxy.dataplane.iptables.rules import chain_rules
from kubeproxy.dataplane.iptables.setup import Options, setup_of
from kubeproxy.dataplane.iptables.state import Kept, difference, everything, is_large
from kubeproxy.table.diff import NO_CHANGES, Changes, diff, patch
from kubeproxy.table.entries import HealthCheck, ServiceName, ServicePortName, Table

SETUP = setup_of(kestrel(), Options())
CART = ServicePortName("mall", "cart", "tcp-80", Protocol.TCP)


def chains(of: Table) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in of.entries.values():
        found |= chain_rules(entry, SETUP)
    return found


@pytest.mark.parametrize("before", CLUSTERS)
@pytest.mark.parametrize("after", CLUSTERS)
def test_a_partial_sync_ends_where_a_full_one_does(before: str, after: str) -> None:
    now, wanted = table(before, Family.IPV4), table(after, Family.IPV4)
    kept, written = everything(now, SETUP, Found())
    kernel = dict(written.chains)
    changes = diff(now, wanted)
    patch(now, changes)
    written = difference(kept, now, changes)
    assert kernel.keys() >= set(written.stale.delete)
    kernel |= written.chains
    kernel = {name: rules for name, rules in kernel.items() if name not in written.stale.delete}
    expected, _ = everything(wanted, SETUP, Found())
    assert kernel == chains(wanted)
    assert kept == expected
    assert kept.order == sorted(kept.order)


def test_unchanged_services_cost_no_chain() -> None:
    now = table("cluster-ip", Family.IPV4)
    kept, _ = everything(now, SETUP, Found())
    before = now.entries[CART]
    after = msgspec.structs.replace(before, cluster=before.cluster[:1])
    changes = Changes(changed=((before, after),))
    patch(now, changes)
    written = difference(kept, now, changes)
    assert written.chains == chain_rules(after, SETUP)
    assert set(written.stale.delete) == chain_rules(before, SETUP).keys() - written.chains.keys()
    assert len(tuple(written.tops)) == len(now.entries)


def test_nothing_changed_is_nothing_but_the_top_level() -> None:
    now = table("cluster-ip", Family.IPV4)
    kept, _ = everything(now, SETUP, Found())
    written = difference(kept, now, NO_CHANGES)
    assert (written.chains, set(written.stale.delete), written.is_news) == ({}, set(), False)


def test_an_endpoint_that_does_not_serve_is_no_news() -> None:
    now = table("cluster-ip", Family.IPV4)
    kept, _ = everything(now, SETUP, Found())
    before = now.entries[CART]
    after = msgspec.structs.replace(before, endpoints=before.endpoints + 1)
    changes = Changes(changed=((before, after),))
    patch(now, changes)
    written = difference(kept, now, changes)
    assert (written.chains, set(written.stale.delete), written.is_news) == ({}, set(), False)


def test_a_health_check_comes_moves_and_goes() -> None:
    now = table("cluster-ip", Family.IPV4)
    kept, _ = everything(now, SETUP, Found())
    name = ServiceName("mall", "cart")
    for check, ports in ((HealthCheck(32000, 1), 1), (HealthCheck(32001, 1), 1), (None, 0)):
        changes = Changes(health_checks={name: check})
        patch(now, changes)
        rules = "".join(top.filter for top in difference(kept, now, changes).tops)
        assert rules.count("health check node port") == ports
        assert check is None or f"--dport {check.port} -j ACCEPT" in rules


def test_chains_that_were_found_and_nobody_uses_are_stale() -> None:
    now = table("cluster-ip", Family.IPV4)
    used = next(iter(chains(now)))
    found = Found(
        frozenset({used, "KUBE-SVC-OLD", "KUBE-SEP-HELD"}), held=frozenset({"KUBE-SEP-HELD"})
    )
    _, written = everything(now, SETUP, found)
    assert (set(written.stale.delete), set(written.stale.empty)) == (
        {"KUBE-SVC-OLD"},
        {"KUBE-SEP-HELD"},
    )


@pytest.mark.parametrize(("endpoints", "large"), [(1000, False), (1001, True)])
def test_more_than_a_thousand_endpoints_are_a_large_cluster(endpoints: int, large: bool) -> None:
    now = table("cluster-ip", Family.IPV4)
    for name, entry in list(now.entries.items()):
        count = endpoints if name == CART else 0
        now.put(msgspec.structs.replace(entry, endpoints=count))
    assert is_large(now) == large
    _, written = everything(now, SETUP, Found())
    assert ("mall/cart:tcp-80 -> " in "".join(written.chains.values())) != large


def test_forgetting_what_was_never_known_is_no_error() -> None:
    kept = Kept(SETUP)
    kept.drop(CART)
    assert kept == Kept(SETUP)
