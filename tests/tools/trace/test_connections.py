"""Which connections are traced, and what became of each."""

import msgspec
import pytest

from kubeproxy.base.errors import OperatorError
from kubeproxy.base.inet import Prefix, Protocol, pack
from kubeproxy.linux.netlink.conntrack import connection_in, dialled
from kubeproxy.serve.status.wire import FrontendDetail
from kubeproxy.tools.trace.connections import (
    Bounds,
    Filter,
    Index,
    Shown,
    Trace,
    Traced,
    Watched,
    describe,
    index,
    is_of,
    parse_filter,
    place_of,
    remarks,
    watched_address,
    watched_ports,
)
from linux.netlink.test_conntrack import ping
from tools.trace.shop import DNS, HTTP, HTTP_IPV6, KNOWN, OWN, event, service

ALL = service(HTTP, HTTP_IPV6, DNS)


def test_a_service_port_as_the_daemon_describes_it() -> None:
    assert [Watched("shop/web:http", HTTP_IPV6)] == watched_ports(service(HTTP_IPV6))


@pytest.mark.parametrize(
    ("port", "protocol", "expected"),
    [
        pytest.param("", None, ["shop/web:http", "shop/web:http", "shop/web"], id="all"),
        pytest.param("http", None, ["shop/web:http", "shop/web:http"], id="by-name"),
        pytest.param("53", None, ["shop/web"], id="by-number"),
        pytest.param("31080", None, ["shop/web:http", "shop/web:http"], id="by-node-port"),
        pytest.param("", Protocol.UDP, ["shop/web"], id="by-protocol"),
    ],
)
def test_ports_are_meant_by(port: str, protocol: Protocol | None, expected: list[str]) -> None:
    assert expected == [each.name for each in watched_ports(ALL, port, protocol)]


@pytest.mark.parametrize(
    ("ports", "message"),
    [
        pytest.param(ALL.ports, "it has http (80/TCP), 53/UDP", id="another-port"),
        pytest.param((), "it has no port that is served here", id="a-service-without-ports"),
        pytest.param(
            (msgspec.structs.replace(DNS, frontends=()),),
            "it has no port that is served here",
            id="a-port-whose-address-another-service-has",
        ),
    ],
)
def test_a_port_that_is_not_there(ports: tuple[object, ...], message: str) -> None:
    changed = msgspec.structs.replace(ALL, ports=ports)
    with pytest.raises(OperatorError) as raised:
        watched_ports(changed, "https")
    assert f"Service shop/web has no such port: {message}" == str(raised.value)


def test_an_address_alone() -> None:
    found = watched_address("fd12::a", 53, Protocol.UDP)
    assert (found.name, found.port.protocol, found.port.ip_family) == ("", "UDP", "IPv6")
    assert found.port.frontends == (FrontendDetail("", "fd12::a", 53),)
    assert found.port.endpoints == ()


def test_a_remark_says_that_none_will_show() -> None:
    unused = msgspec.structs.replace(HTTP, endpoints=HTTP.endpoints[2:])
    address = watched_address("10.0.0.1", 80, Protocol.TCP)
    (remark,) = remarks([*watched_ports(service(HTTP, unused)), address])
    assert remark == (
        "note: shop/web:http has no IPv4 endpoint that is used: connections to it end before they "
        "are tracked, so none will show"
    )


# --- which connections ------------------------------------------------------------------------

L1 = "10.64.3.11:8080"
POD = "10.64.3.50:40000"
OUTSIDE = "192.0.2.50:40000"


def traced(seen: bytes, known: Index = KNOWN) -> Traced | None:
    """What becomes of the event, if it is of a watched service port."""
    to, connection = dialled(seen), connection_in(seen)
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
    assert (kind, to) == (found.frontend.kind, found.destination)
    assert found.watched.name == "shop/web:http"
    assert (found.endpoint, found.detail) == ("10.64.3.11:8080", HTTP.endpoints[0])


@pytest.mark.parametrize(
    ("seen", "why"),
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
def test_connections_of_others(seen: bytes, why: str) -> None:
    assert traced(seen) is None, why


def test_a_masqueraded_client() -> None:
    found = traced(event(OUTSIDE, "198.51.100.10:31080", L1, "198.51.100.10:53211"))
    assert found is not None
    assert (found.client, found.seen) == (OUTSIDE, "198.51.100.10:53211")


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
def test_an_endpoint_that_is_not_known_yet(to: str) -> None:
    found = traced(event(POD, to, "10.64.3.13:8080"))
    assert found is not None
    assert (found.endpoint, found.detail) == ("10.64.3.13:8080", None)


def test_a_node_port_on_an_address_that_no_interface_shows() -> None:
    found = traced(event("127.0.0.1:40000", "127.0.0.5:31080", L1))
    assert found is not None
    assert found.frontend.kind == "node-port"


def test_ipv6() -> None:
    found = traced(event("[fd40::50]:40000", "[fd12::21]:80", "[fd40::11]:8080"))
    assert found is not None
    assert found.client == "[fd40::50]:40000"
    assert found.endpoint == "[fd40::11]:8080"


def test_an_address_of_which_nothing_else_is_known() -> None:
    known = index([watched_address("10.112.0.21", 80, Protocol.TCP)], ())
    found = traced(event(POD, "10.112.0.21:80", L1), known)
    assert found is not None
    assert (found.frontend.kind, found.endpoint) == ("", "10.64.3.11:8080")
    assert found.detail is None


def test_of_two_with_the_same_frontend_the_first_counts() -> None:
    address = watched_address("10.112.0.21", 80, Protocol.TCP)
    (port,) = watched_ports(service(HTTP))
    for first, second in ((address, port), (port, address)):
        found = traced(event(POD, "10.112.0.21:80", L1), index([first, second], OWN))
        assert found is not None
        assert found.watched == first


# --- filters ----------------------------------------------------------------------------------

V4, V6 = "10.112.0.21:80", "[fd12::21]:80"
SIX = "[fd40::11]:8080"
X, POD6 = "192.0.2.50:40000", "[fd40::50]:40000"


@pytest.mark.parametrize(
    ("clients", "endpoints", "client", "responder", "expected"),
    [
        pytest.param([], [], X, L1, True, id="no-filter"),
        pytest.param([], [], X, V4, True, id="no-filter-and-not-translated"),
        pytest.param(["192.0.2.50"], [], X, L1, True, id="that-client"),
        pytest.param(["192.0.2.51"], [], X, L1, False, id="another-client"),
        pytest.param(["192.0.2.99/24"], [], X, L1, True, id="in-the-range"),
        pytest.param(["192.0.2.0/27"], [], X, L1, False, id="outside-the-range"),
        pytest.param(["::/0"], [], X, L1, False, id="another-family"),
        pytest.param(["fd40::/48"], [], POD6, SIX, True, id="a-range-of-ipv6"),
        pytest.param(["[fd40::50]"], [], POD6, SIX, True, id="ipv6-in-brackets"),
        pytest.param(["::/0", "192.0.2.50"], [], X, L1, True, id="one-of-the-clients"),
        pytest.param([], ["10.64.3.11"], X, L1, True, id="that-endpoint"),
        pytest.param([], ["10.64.3.11:8080"], X, L1, True, id="with-its-port"),
        pytest.param([], ["10.64.3.11:8081"], X, L1, False, id="another-port"),
        pytest.param([], ["10.64.3.12"], X, L1, False, id="another-endpoint"),
        pytest.param([], ["[fd40::11]:8080"], POD6, SIX, True, id="an-endpoint-of-ipv6"),
        pytest.param([], ["fd40::11"], POD6, SIX, True, id="ipv6-without-a-port"),
        pytest.param([], ["10.64.3.11"], X, V4, False, id="not-translated"),
        pytest.param(["192.0.2.51"], ["10.64.3.11"], X, L1, False, id="both-must-hold"),
    ],
)
def test_a_filter_accepts(
    clients: list[str],
    endpoints: list[str],
    client: str,
    responder: str,
    expected: bool,
) -> None:
    connection = connection_in(event(client, V6 if client == POD6 else V4, responder))
    assert connection is not None
    assert expected is parse_filter(clients, endpoints).accepts(connection)


def test_what_texts_mean() -> None:
    expected = Filter(
        (Prefix("10.0.0.1", 32), Prefix("10.1.0.0", 16)), frozenset({pack("fd40::11")})
    )
    assert expected == parse_filter(["10.0.0.1", "10.1.2.3/16"], ["fd40::11"])


@pytest.mark.parametrize(
    ("clients", "endpoints", "message"),
    [
        (["web"], [], "--from web: it is neither an address nor a CIDR"),
        ([], ["web"], "--endpoint web: it is no ADDRESS[:PORT]"),
        ([], ["10.0.0.1:http"], "--endpoint 10.0.0.1:http: 'http' is not a port number"),
    ],
    ids=["a-client-that-is-none", "an-endpoint-that-is-none", "a-port-that-is-none"],
)
def test_a_text_that_means_nothing(clients: list[str], endpoints: list[str], message: str) -> None:
    with pytest.raises(OperatorError) as raised:
        parse_filter(clients, endpoints)
    assert message == str(raised.value)


# --- the trace --------------------------------------------------------------------------------

TO = "10.112.0.21:80"
OURS = event(POD, TO, L1)
OURS_TOO = event("10.64.3.51:40000", "10.112.0.21:80", "10.65.7.21:8080")
OF_OTHERS = event("10.64.3.50:40000", "10.112.0.22:80", "10.64.3.11:8080")
OF_ANOTHER_NODE = event("10.64.3.50:40000", "198.51.100.99:31080", "198.51.100.99:31080")


def trace_of(bounds: Bounds, *events: bytes) -> tuple[Trace, list[str]]:
    """The trace after these events, and the clients of what it showed."""
    shown: list[Shown] = []
    trace = Trace(KNOWN, bounds, shown.append)
    for each in events:
        trace.take(each)
    return trace, [each.client for each in shown if isinstance(each, Traced)]


def test_connections_of_others_are_passed_over() -> None:
    trace, shown = trace_of(Bounds(), OF_OTHERS, ping(), OURS, OF_ANOTHER_NODE)
    assert shown == ["10.64.3.50:40000"]
    assert (trace.seen, trace.shown) == (1, 1)


def test_what_is_filtered_out_does_not_count() -> None:
    wanted = parse_filter(["10.64.3.51"], [])
    trace, shown = trace_of(Bounds(wanted), OURS, OURS_TOO)
    assert (shown, trace.seen) == (["10.64.3.51:40000"], 1)


def test_what_comes_too_fast_is_counted_and_not_shown() -> None:
    trace, shown = trace_of(Bounds(rate=1), OURS, OURS_TOO, OURS)
    assert shown == ["10.64.3.50:40000"]
    assert (trace.seen, trace.shown) == (3, 1)
    assert trace.begin_second() == 2
    trace.take(OURS)
    trace.take(OURS)
    assert (len(shown), trace.shown) == (1, 2)
    assert trace.begin_second() == 1
    assert trace.begin_second() == 0


def test_it_is_complete_after_as_many_as_were_asked_for() -> None:
    assert not trace_of(Bounds(count=2), OURS)[0].is_complete
    assert trace_of(Bounds(count=2), OURS, OURS_TOO)[0].is_complete
    assert not trace_of(Bounds(), OURS, OURS_TOO)[0].is_complete


def test_news_of_the_service_count_from_the_next_event_on() -> None:
    trace, shown = trace_of(Bounds(), OURS)
    trace.known = index([], ())
    trace.take(OURS)
    assert len(shown) == 1


# --- the summary ------------------------------------------------------------------------------


def to(*responders: str, rate: int = 0) -> Trace:
    events = (event("10.64.3.50:40000", TO, responder) for responder in responders)
    return trace_of(Bounds(rate=rate), *events)[0]


def test_endpoints_by_how_often_they_were_chosen() -> None:
    trace = to("10.64.3.11:8080", *["10.65.7.210:8080"] * 3, TO, rate=3)
    assert list(trace.summary(0)) == [
        "5 connections, 3 shown, nothing lost",
        "  10.65.7.210:8080  3",
        "  10.64.3.11:8080   1",
        "  not translated    1",
    ]


def test_nothing_was_seen() -> None:
    assert list(to().summary(1234)) == ["0 connections, 0 shown, 1,234 events of this node lost"]


def test_one_connection() -> None:
    assert next(to("10.64.3.11:8080").summary(0)) == "1 connection, 1 shown, nothing lost"


def test_many_endpoints_are_counted_together() -> None:
    lines = list(to(*(f"10.64.3.11:{port}" for port in range(1, 1026))).summary(0))
    assert (len(lines), lines[-1]) == (22, "  and 1,005 more endpoints")
