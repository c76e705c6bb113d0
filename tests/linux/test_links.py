from kubeproxy.base.inet import Family
from kubeproxy.linux.links import interface_addresses


def test_the_loopback_has_its_address() -> None:
    assert "127.0.0.1" in interface_addresses(Family.IPV4)
