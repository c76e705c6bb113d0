"""Answers of several nodes as one."""

from msgspec.structs import replace

from kubeproxy.explain.words import Explanation
from kubeproxy.tools.kubectl.merge import busiest, grouped, heading, in_words, merged
from tools.reported import CART, DNS, REPORTS, not_counted, services


def test_connections_are_added() -> None:
    found = merged({"a": services(CART, DNS), "b": services(CART, DNS)})
    assert [(each.service, each.connections, each.per_second) for each in found.services] == [
        ("dns", 154, 1.0),
        ("cart", 2400, 25.0),
    ]
    assert (found.total, found.matching, found.counts_connections) == (3, 2, True)


def test_what_is_not_counted_everywhere() -> None:
    silent = not_counted(services(CART))
    found = merged({"a": silent, "b": services(CART)})
    assert (found.mode, found.services[0].connections) == ("iptables, nftables", 1200)
    found = merged({"a": silent})
    assert (found.services[0].connections, found.services[0].per_second) == (None, None)


def test_problems_name_their_nodes_where_not_all_have_them() -> None:
    well = replace(REPORTS, problems=())
    found = merged({"a": services(REPORTS), "b": services(well), "c": services()})
    assert found.services[0].problems == ("no endpoint can serve (on a)", "not served (on c)")
    found = merged({"a": services(REPORTS), "b": services(REPORTS)})
    assert found.services[0].problems == ("no endpoint can serve",)


def test_a_list_that_is_cut_does_not_say_what_is_missing() -> None:
    cut = replace(services(CART), matching=2)
    assert merged({"a": cut, "b": services(CART, DNS)}).services[0].problems == ()


def test_of_no_node() -> None:
    assert merged({}).services == ()


def test_the_busiest_come_first() -> None:
    found = busiest(services(DNS, REPORTS, CART), 2)
    assert [each.service for each in found.services] == ["cart", "dns"]
    assert len(busiest(services(DNS, not_counted(services(CART)).services[0]), 0).services) == 2


def test_the_same_answer_is_shown_once() -> None:
    assert grouped({"a": "x", "b": "y", "c": "y"}) == [(["b", "c"], "y"), (["a"], "x")]
    assert [heading(nodes)[0].text for nodes, _ in grouped({"a": "x", "b": "y", "c": "y"})] == [
        "=== 2 nodes: b, c",
        "=== node a",
    ]


def test_explanations_agree_on_different_nodes() -> None:
    def on(node: str) -> Explanation:
        return Explanation(node, "nftables", "192.0.2.1", "outside", "x:80/TCP", "c", "drop", "s")

    assert in_words([on("a")]) == in_words([on("b")])
    assert in_words([on("a")]).startswith("192.0.2.1 (outside) -> x:80/TCP   nftables mode\n")
