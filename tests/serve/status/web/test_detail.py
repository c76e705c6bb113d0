"""The page of a Service: frontends, endpoints, and why some are not used."""

import msgspec
import pytest

from kubeproxy.serve.status.web.detail import service_page
from kubeproxy.serve.status.wire import EndpointDetail, PortDetail, ServiceDetail
from serve.status.web.parsed import Parsed
from serve.status.web.samples import (
    CLAIMED,
    DETAIL,
    DRAINING,
    FAILING,
    FAR,
    PORT,
    STOPPED,
    UNREADY,
    USED,
)

replace = msgspec.structs.replace


def shown(port: PortDetail, detail: ServiceDetail = DETAIL) -> Parsed:
    return Parsed(service_page(replace(detail, ports=(port,))))


def test_everything_is_there() -> None:
    text = shown(PORT).text
    assert "12.5 new connections per second" in text
    assert "http TCP IPv4" in text
    assert "cluster-ip10.112.0.20:801,23012.5node-portport 31080 of this node4\u2013" in text
    assert "5 endpoints, 2 used" in text
    for words in (
        *("internalTrafficPolicy Cluster", "externalTrafficPolicy Local", "balance random"),
        *("session affinity 3 h", "only from 192.0.2.0/25", "health check port 31999"),
    ):
        assert words in text


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        pytest.param(USED, "this nodereadyused70.5", id="used"),
        pytest.param(
            FAR,
            "heronreadyusednot for policy Local: it is on node heron, and the traffic policy is"
            " Local",
            id="used-for-one-policy",
        ),
        pytest.param(UNREADY, "not namednot readynot usednot ready", id="the-same-for-both"),
        pytest.param(
            DRAINING, "terminating, still servingnot usedterminating", id="one-policy-only"
        ),
        pytest.param(
            FAILING,
            "this nodereadyleft outleft out until 12:00:15 UTCconnections that failed: 16 refused,"
            " 1 reset70.5",
            id="left-out-because-it-fails",
        ),
        pytest.param(
            replace(FAILING, used=True, not_for_local="", failures={}),
            "this nodereadyusednot for policy Cluster: left out until 12:00:15 UTC70.5",
            id="left-out-of-one-list",
        ),
        pytest.param(STOPPED, "this nodeterminatingnot usedterminating", id="stopped"),
    ],
)
def test_endpoints(endpoint: EndpointDetail, expected: str) -> None:
    found = shown(replace(PORT, endpoints=(endpoint,)))
    assert expected in found.text
    assert ("unused" in found.values("class")) == (not endpoint.used)


@pytest.mark.parametrize(
    ("counted", "connections", "expected"),
    [
        pytest.param(True, 7, ["Connections", "Per second"] * 2, id="endpoints-too"),
        pytest.param(True, None, ["Connections", "Per second"], id="frontends-only"),
        pytest.param(False, None, [], id="nothing"),
    ],
)
def test_columns_of_connections(
    counted: bool, connections: int | None, expected: list[str]
) -> None:
    port = replace(PORT, endpoints=(replace(USED, connections=connections),))
    found = shown(port, replace(DETAIL, counts_connections=counted))
    columns = [
        label for label in found.values("data-label") if label in {"Connections", "Per second"}
    ]
    frontends = len(PORT.frontends)
    assert columns == expected[:2] * frontends + expected[2:]


def test_of_many_endpoints_the_first_are_shown() -> None:
    found = shown(replace(PORT, endpoints=(UNREADY,) * 1300))
    assert found.values("class").count("unused") == 200
    assert "1,300 endpoints, 0 used" in found.text
    assert "1,100 more: the JSON (?format=json) has all" in found.text


def test_a_port_with_troubles() -> None:
    text = shown(replace(PORT, not_programmed="no space left", conflicts=(CLAIMED,))).text
    assert "The kernel does not have it: no space left" in text
    assert "*:31080/TCP is served by shop/web:http, and not by mall/web:http" in text


def test_a_plain_port() -> None:
    port = PortDetail("", "UDP", "IPv6", (), (), "Local", source_ranges=())
    found = shown(port)
    assert "UDP IPv6" in found.text
    assert "internalTrafficPolicy Localno source allowed" in found.text
    assert "0 endpoints, 0 used" in found.text
    assert found.count("table") == 1
    assert "\u2013 new connections" in found.text


def test_where_it_leads() -> None:
    found = shown(PORT)
    assert "/rules/shop/web" in found.values("href")
    assert "shop/web" in found.values("value")
    assert "/status#explain" in found.values("action")
