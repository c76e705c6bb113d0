import pytest

from kubeproxy.base.inet import Protocol
from kubeproxy.linux.netlink.conntrack import connection_in, dialled
from kubeproxy.tools.trace.index import Index, Traced, describe, index, is_of, place_of
from kubeproxy.tools.trace.watched import Endpoint, watched_address, watched_ports
from tools.trace.shop import HTTP, KNOWN, OWN, event, service

L1 = "10.64.3.11:8080"
POD = "10.64.3.50:40000"
OUTSIDE = "192.0.2.50:40000"


def traced(told: bytes, known: Index = KNOWN) -> Traced | None:
    """What becomes of the event, if it is of a watched service port."""
    to, connection = dialled(told), connection_in(told)
    assert to is not None
    assert connection is not None
    place = place_of(known, to)
    if place is None or not is_of(known, place, connection):
        return None
    return describe(known, place, connection)


@pytest.mark.parametrize(
    ("to", "kind"),
    [
        pytest.param("10.112.0.21:80", "cluster-ip", id="a-cluster-ip"),
        pytest.param("203.0.113.7:80", "load-balancer", id="a-load-balancer"),
        pytest.param("198.18.0.5:80", "external-ip", id="an-external-ip"),
        pytest.param("198.51.100.10:31080", "node-port", id="a-node-port"),
    ],
)
def test_each_kind_of_frontend_is_recognised(to: str, kind: str) -> None:
    found = traced(event(OUTSIDE, to, L1))
    assert found is not None
    assert (kind, to) == (found.frontend.kind, str(found.destination))
    assert found.watched.name == "shop/web:http"
    assert found.endpoint == Endpoint("10.64.3.11", 8080, "kestrel", here=True)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        pytest.param(event(POD, "10.112.0.22:80", L1), "another-address", id="address"),
        pytest.param(event(POD, "10.112.0.21:81", L1), "another-port", id="port"),
        pytest.param(
            event(POD, "10.112.0.21:80", L1, protocol=Protocol.UDP), "protocol", id="protocol"
        ),
        pytest.param(event(POD, L1, L1), "to the endpoint itself", id="endpoint"),
        pytest.param(
            event(POD, "198.51.100.99:31080", "198.51.100.99:31080"),
            "the node port of another node",
            id="another-node",
        ),
    ],
)
def test_what_is_somebody_elses(told: bytes, why: str) -> None:
    assert traced(told) is None, why


def test_a_masqueraded_client() -> None:
    found = traced(event(OUTSIDE, "198.51.100.10:31080", L1, "198.51.100.10:53211"))
    assert found is not None
    assert (str(found.client), str(found.seen)) == (OUTSIDE, "198.51.100.10:53211")


def test_a_client_whose_address_is_kept() -> None:
    found = traced(event(POD, "10.112.0.21:80", L1))
    assert found is not None
    assert found.client == found.seen


@pytest.mark.parametrize(
    "to",
    [
        pytest.param("10.112.0.21:80", id="a-cluster-ip"),
        pytest.param("198.51.100.10:31080", id="a-node-port"),
        pytest.param("[2001:db8:aa::10]:31080", id="a-node-port-of-ipv6"),
    ],
)
def test_a_destination_that_is_not_translated(to: str) -> None:
    client = "[2001:db8::1]:40000" if to.startswith("[") else OUTSIDE
    found = traced(event(client, to, to))
    assert found is not None
    assert found.endpoint is None


@pytest.mark.parametrize("to", ["10.112.0.21:80", "198.51.100.10:31080"])
def test_an_endpoint_of_which_nobody_has_told_yet(to: str) -> None:
    found = traced(event(POD, to, "10.64.3.13:8080"))
    assert found is not None
    assert found.endpoint == Endpoint("10.64.3.13", 8080)


def test_a_node_port_on_an_address_that_no_interface_shows() -> None:
    found = traced(event("127.0.0.1:40000", "127.0.0.5:31080", L1))
    assert found is not None
    assert found.frontend.kind == "node-port"


def test_ipv6() -> None:
    found = traced(event("[fd40::50]:40000", "[fd12::21]:80", "[fd40::11]:8080"))
    assert found is not None
    assert str(found.client) == "[fd40::50]:40000"
    assert str(found.endpoint) == "[fd40::11]:8080"


def test_an_address_of_which_nothing_else_is_known() -> None:
    known = index([watched_address("10.112.0.21", 80, Protocol.TCP)], ())
    found = traced(event(POD, "10.112.0.21:80", L1), known)
    assert found is not None
    assert (found.frontend.kind, found.endpoint) == ("", Endpoint("10.64.3.11", 8080))


def test_of_two_with_the_same_frontend_the_first_counts() -> None:
    address = watched_address("10.112.0.21", 80, Protocol.TCP)
    (port,) = watched_ports(service(HTTP))
    for first, second in ((address, port), (port, address)):
        found = traced(event(POD, "10.112.0.21:80", L1), index([first, second], OWN))
        assert found is not None
        assert found.watched == first
