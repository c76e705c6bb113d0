import pytest

from kubeproxy.base.errors import OperatorError
from kubeproxy.base.inet import Protocol
from kubeproxy.explain.destination import Destination, destination

TCP, UDP, _ = Protocol


@pytest.mark.parametrize(
    ("text", "address", "service", "port", "protocol"),
    [
        ("10.112.0.10:53/udp", "10.112.0.10", "", "53", UDP),
        ("10.112.0.10", "10.112.0.10", "", "", None),
        ("[fd12::a]:53", "fd12::a", "", "53", None),
        ("[fd12::a]/TCP", "fd12::a", "", "", TCP),
        ("fd12::a", "fd12::a", "", "", None),
        ("web", "", "web", "", None),
        ("shop/web", "", "shop/web", "", None),
        ("shop/web:http", "", "shop/web", "http", None),
        ("kube-dns:53/udp", "", "kube-dns", "53", UDP),
    ],
)
def test_what_a_text_names(
    text: str, address: str, service: str, port: str, protocol: Protocol | None
) -> None:
    assert Destination(text, address, service, port, protocol) == destination(text)


def test_a_port_of_an_address_is_a_number() -> None:
    assert destination("10.112.0.10:53/udp").number == 53


@pytest.mark.parametrize("port", ["http", "0", "65536", "-1", "²"])
def test_a_port_that_is_no_number(port: str) -> None:
    with pytest.raises(OperatorError) as raised:
        _ = destination(f"10.112.0.10:{port}").number
    assert str(raised.value) == f"--to 10.112.0.10:{port}: {port!r} is not a port number"
