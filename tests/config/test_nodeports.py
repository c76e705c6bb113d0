import pytest

from kubeproxy.base.inet import Family
from kubeproxy.config.nodeports import expand

NODE = {Family.IPV4: "192.168.0.2", Family.IPV6: "fd00::2"}
IPV4_ALONE = {Family.IPV4: "192.168.0.2", Family.IPV6: "::1"}
UNKNOWN = {Family.IPV4: "127.0.0.1", Family.IPV6: "::1"}


@pytest.mark.parametrize(
    ("addresses", "node_ips", "expected"),
    [
        pytest.param([], NODE, [], id="nothing"),
        pytest.param(["10.1.2.3/8"], NODE, ["10.0.0.0/8"], id="a-cidr"),
        pytest.param(
            ["primary"], NODE, ["192.168.0.2/32", "fd00::2/128"], id="primary-of-both-families"
        ),
        pytest.param(
            ["primary"], IPV4_ALONE, ["192.168.0.2/32"], id="a-loopback-address-is-unknown"
        ),
        pytest.param(["primary"], UNKNOWN, [], id="nothing-is-known"),
        pytest.param(["primary"], {}, [], id="nothing-is-given"),
        pytest.param(["localhost"], NODE, ["127.0.0.0/8", "::1/128"], id="localhost"),
        pytest.param(["all"], NODE, ["0.0.0.0/0", "::/0"], id="all"),
        pytest.param(
            ["10.0.0.0/8", "localhost", "primary"],
            IPV4_ALONE,
            ["10.0.0.0/8", "127.0.0.0/8", "::1/128", "192.168.0.2/32"],
            id="a-mixture-in-its-order",
        ),
        pytest.param(["nonsense"], NODE, [], id="what-validation-refuses-is-nothing"),
    ],
)
def test_keywords_are_expanded(
    addresses: list[str], node_ips: dict[Family, str], expected: list[str]
) -> None:
    assert expected == list(map(str, expand(addresses, node_ips)))
