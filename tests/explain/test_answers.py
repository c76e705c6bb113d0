"""What is said beside the verdict: of endpoints that cannot be chosen, and of the destination."""

import pytest

from kubeproxy.base.inet import Family
from kubeproxy.engine.node import node_ips, with_bind_address
from kubeproxy.explain.answers import Asked, View, answer
from kubeproxy.explain.words import Explanation
from kubeproxy.table.build import Builder
from world import Document, Mode, cluster_of, endpoint_slice, everywhere, node, seen_by, service

TWO_PORTS = {"ports": [{"name": "admin", "port": 81}, {"name": "http", "port": 80}]}
LOCAL = {"externalTrafficPolicy": "Local"}


def view(*documents: Document, mode: Mode = Mode.NFTABLES) -> View:
    cluster = cluster_of(*documents)
    builders = {family: Builder(family) for family in Family}
    for family, builder in builders.items():
        builder.update(cluster, (), seen_by(cluster, family))
    return View(
        cluster=cluster,
        mode=mode.value,
        quirks=mode.quirks,
        ips=node_ips(with_bind_address(cluster.node, "")),
        tables={family: builder.table for family, builder in builders.items()},
        nodes={family: node(mode, family) for family in Family},
        conflicts={family: builder.conflicts() for family, builder in builders.items()},
    )


def explained(to: str, *documents: Document, source: str = "outside") -> Explanation:
    (found,) = answer(Asked(source, (to,)), view(*documents))
    return found


@pytest.mark.parametrize(
    ("document", "endpoints", "expected"),
    [
        pytest.param(
            everywhere(LOCAL),
            "L1 R1",
            "it is on node heron, and the traffic policy is Local",
            id="on-another-node",
        ),
        pytest.param(
            everywhere(), "L1 R1:unready", "it is not ready", id="what-the-model-says-is-enough"
        ),
        pytest.param(
            everywhere(),
            "L1%kestrel R1%heron",
            "its topology hints are for node heron, and this is kestrel",
            id="hints-for-another-node",
        ),
        pytest.param(
            everywhere(),
            "L1@z-east R1@z-west",
            "its topology hints are for zone z-west, and this node is in z-east",
            id="hints-for-another-zone",
        ),
    ],
)
def test_why_an_endpoint_is_not_chosen(document: Document, endpoints: str, expected: str) -> None:
    found = explained("203.0.113.7:80", document, endpoint_slice(endpoints))
    assert [expected] == [each.reason for each in found.not_chosen]
    assert [each.node for each in found.endpoints] == ["kestrel"]


def test_an_endpoint_whose_node_is_not_named() -> None:
    nowhere = endpoint_slice(
        "", {"endpoints": [{"addresses": ["10.64.3.11"], "conditions": {"ready": True}}]}
    )
    found = explained("203.0.113.7:80", everywhere(LOCAL), nowhere)
    assert [each.reason for each in found.not_chosen] == [
        "its slice does not say on which node it is, and the traffic policy is Local"
    ]


def test_endpoints_are_those_of_the_port() -> None:
    found = explained("cart:http", service(TWO_PORTS), endpoint_slice("L1"))
    assert [each.endpoint for each in found.endpoints] == ["10.64.3.11:8080"]


@pytest.mark.parametrize(
    ("to", "documents", "expected"),
    [
        pytest.param(
            "10.112.0.21:99",
            (service(TWO_PORTS),),
            "services have these ports of the address: 10.112.0.21:80/TCP, 10.112.0.21:81/TCP",
            id="another-port-of-a-service",
        ),
        pytest.param(
            "203.0.113.7:80",
            (everywhere({"loadBalancerSourceRanges": ["198.18.0.0/16"]}), endpoint_slice("L1")),
            "allowed are 198.18.0.0/16",
            id="a-source-that-is-not-allowed",
        ),
        pytest.param(
            "203.0.113.7:80",
            (everywhere({"loadBalancerSourceRanges": ["fd00::/8"]}), endpoint_slice("L1")),
            "allowed are no IPv4 sources at all",
            id="no-source-of-the-family-is-allowed",
        ),
        pytest.param(
            "10.112.0.21:80",
            (service(), service(name="till"), endpoint_slice("L1")),
            "shop/till:http claims 10.112.0.21:80/TCP too and does not get it",
            id="two-claim-it",
        ),
    ],
)
def test_what_is_known_of_the_destination(
    to: str, documents: tuple[Document, ...], expected: str
) -> None:
    assert expected in explained(to, *documents).notes


def test_a_destination_that_no_service_has_and_a_conflict_elsewhere() -> None:
    rivals = (service(), service(name="till"))
    unserved = explained("192.0.2.77:80", *rivals, source="host")
    assert (unserved.matched, unserved.notes) == (None, ())
    other = service({"clusterIP": "10.112.0.9"}, name="books")
    (found,) = answer(Asked("host", ("10.112.0.9:80",)), view(*rivals, other))
    assert not any("claims" in note for note in found.notes)


def test_each_destination_has_its_answer() -> None:
    found = answer(Asked("10.64.3.50", ("cart", "192.0.2.77:80"), "eth0"), view(service()))
    assert [each.destination for each in found] == ["10.112.0.21:80/TCP", "192.0.2.77:80/TCP"]
