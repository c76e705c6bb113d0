"""What packets need besides rules, as a scrape has it."""

from collections.abc import Iterable

from kubeproxy.base.conntracktable import ConntrackUse
from kubeproxy.base.inet import Family
from kubeproxy.engine.surroundings import Surroundings
from kubeproxy.serve.metrics.families import Reading
from kubeproxy.serve.metrics.node import (
    claim_families,
    conntrack_families,
    foreign_family,
    node_families,
    source_family,
)


def values(families: Iterable[Reading]) -> dict[str, float]:
    return {
        each.about.name.removeprefix("kubeproxy_") + sample.labels: sample.value
        for each in families
        for sample in each.samples()
    }


def test_the_use_of_connection_tracking() -> None:
    assert values(conntrack_families(lambda: ConntrackUse(7, 1000, 2, 3))) == {
        "conntrack_entries": 7,
        "conntrack_entries_limit": 1000,
        "conntrack_insert_failures_total": 2,
        "conntrack_dropped_packets_total": 3,
    }
    assert values(conntrack_families(lambda: None)) == {}


def test_the_node() -> None:
    found = Surroundings(
        not_forwarded=frozenset({Family.IPV6}), missing_addresses={Family.IPV4: "192.0.2.9"}
    )
    assert values(node_families(tuple(Family), lambda: found)) == {
        'node_forwards_packets{ip_family="IPv4"}': 1,
        'node_forwards_packets{ip_family="IPv6"}': 0,
        'node_address_missing{ip_family="IPv4"}': 1,
        'node_address_missing{ip_family="IPv6"}': 0,
        "node_object_missing": 0,
    }


def test_when_something_came() -> None:
    name = "source_last_received_timestamp_seconds"
    assert values([source_family(lambda: 12.0, lambda: 1000.0)]) == {name: 988}
    assert values([source_family(lambda: None, lambda: 1000.0)]) == {}


def test_who_changed_the_rules() -> None:
    family = foreign_family({Family.IPV4: {"": 0, "kube-proxy": 46}})
    assert values([family]) == {
        'foreign_changes_total{ip_family="IPv4",program=""}': 0,
        'foreign_changes_total{ip_family="IPv4",program="kube-proxy"}': 46,
    }


def test_what_is_not_served() -> None:
    families = claim_families(lambda: [(Family.IPV4, 3)], lambda: 2)
    assert values(families) == {'address_conflicts{ip_family="IPv4"}': 3, "ignored_parts": 2}
