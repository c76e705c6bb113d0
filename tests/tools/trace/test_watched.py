import msgspec
import pytest

from kubeproxy.base.errors import OperatorError
from kubeproxy.base.inet import Family, Protocol
from kubeproxy.tools.trace.watched import (
    Endpoint,
    Frontend,
    Watched,
    remarks,
    watched_address,
    watched_ports,
)
from tools.trace.shop import DNS, HTTP, HTTP_IPV6, service

ALL = service(HTTP, HTTP_IPV6, DNS)


def test_a_service_port_as_the_daemon_tells_of_it() -> None:
    expected = Watched(
        "shop/web:http",
        Family.IPV6,
        Protocol.TCP,
        (Frontend("cluster-ip", "fd12::21", 80), Frontend("node-port", "", 31080)),
        (Endpoint("fd40::11", 8080, "kestrel", here=True),),
    )
    assert [expected] == watched_ports(service(HTTP_IPV6))


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
    expected = Watched("", Family.IPV6, Protocol.UDP, (Frontend("", "fd12::a", 53),))
    assert expected == watched_address("fd12::a", 53, Protocol.UDP)


def test_who_waits_in_vain_is_told() -> None:
    unused = msgspec.structs.replace(HTTP, endpoints=HTTP.endpoints[2:])
    address = watched_address("10.0.0.1", 80, Protocol.TCP)
    (remark,) = remarks([*watched_ports(service(HTTP, unused)), address])
    assert remark == (
        "note: shop/web:http has no IPv4 endpoint that is used: connections to it end before they "
        "are tracked, so none will show"
    )
