"""How long a client waits, and which proxy leads to a server."""

import pytest

from kubeproxy.cluster.client.http_client import RateLimit, TokenBucket
from kubeproxy.cluster.client.routes import proxy_for

PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("qps", "burst", "times", "waits"),
    [
        pytest.param(5, 2, [0, 0, 0, 0], [0, 0, 0.2, 0.4], id="a-burst-then-a-queue"),
        pytest.param(5, 2, [0, 0, 0.2, 0.4], [0, 0, 0, 0], id="the-steady-rate-never-waits"),
        pytest.param(
            5, 2, [0, 0, 100, 100, 100], [0, 0, 0, 0, 0.2], id="saves-no-more-than-burst"
        ),
        pytest.param(5, 2, [0, 0, 0, 0.1], [0, 0, 0.2, 0.3], id="clients-queue-behind-each-other"),
        pytest.param(5, 1, [1, 0.5, 1], [0, 0.2, 0.4], id="a-clock-that-steps-back-adds-nothing"),
        pytest.param(-1, 1, [0, 0, 0], [0, 0, 0], id="a-negative-rate-is-no-limit"),
        pytest.param(0, 0, [0, 0, 0], [0, 0, 0], id="no-rate-is-no-limit"),
    ],
)
def test_how_long_each_client_waits(
    qps: float, burst: int, times: list[float], waits: list[float]
) -> None:
    bucket = TokenBucket(RateLimit(qps, burst))
    assert waits == pytest.approx([bucket.take(now) for now in times])


@pytest.mark.parametrize(
    ("server", "environ", "expected"),
    [
        pytest.param("https://api:6443", {}, "", id="none-set"),
        pytest.param("https://api:6443", {"HTTPS_PROXY": PROXY}, PROXY, id="https"),
        pytest.param("https://api:6443", {"https_proxy": PROXY}, PROXY, id="lower-case"),
        pytest.param("https://api:6443", {"HTTP_PROXY": PROXY}, "", id="http-proxy-for-https"),
        pytest.param("http://api:8080", {"HTTP_PROXY": PROXY}, PROXY, id="http"),
        pytest.param("https://api", {"HTTPS_PROXY": "proxy:3128"}, PROXY, id="without-scheme"),
        pytest.param("https://localhost:6443", {"HTTPS_PROXY": PROXY}, "", id="localhost"),
        pytest.param("https://127.1.2.3:6443", {"HTTPS_PROXY": PROXY}, "", id="loopback"),
        pytest.param("https://[::1]:6443", {"HTTPS_PROXY": PROXY}, "", id="loopback-v6"),
    ],
)
def test_the_proxy_of_the_environment(server: str, environ: dict[str, str], expected: str) -> None:
    assert expected == proxy_for(server, environ)


@pytest.mark.parametrize(
    ("server", "excepted", "direct"),
    [
        pytest.param("https://api.corp:6443", "*", True, id="a-star"),
        pytest.param("https://api.corp:6443", " , ", False, id="blanks"),
        pytest.param("https://api.corp:6443", "api.corp", True, id="the-name"),
        pytest.param("https://api.corp.:6443", "API.Corp", True, id="the-name-in-another-case"),
        pytest.param("https://api.corp:6443", "corp", True, id="a-parent-domain"),
        pytest.param("https://api.corp:6443", ".corp", True, id="a-parent-with-a-dot"),
        pytest.param("https://api.corp:6443", "*.corp", True, id="a-parent-with-a-star"),
        pytest.param("https://corp:6443", ".corp", False, id="a-dot-leaves-out-the-parent"),
        pytest.param("https://xcorp:6443", "corp", False, id="only-whole-labels"),
        pytest.param("https://api.corp:6443", "corp:6443", True, id="name-and-port"),
        pytest.param("https://api.corp:6443", "corp:443", False, id="another-port"),
        pytest.param("https://api.corp", "corp:443", True, id="the-default-port"),
        pytest.param("https://10.0.0.1:6443", "10.0.0.0/8", True, id="a-prefix"),
        pytest.param("https://11.0.0.1:6443", "a,10.0.0.0/8", False, id="another-prefix"),
        pytest.param("https://api.corp:6443", "10.0.0.0/8", False, id="a-name-is-in-no-prefix"),
        pytest.param("https://10.0.0.1:6443", "10.0.0.1", True, id="the-address"),
        pytest.param("https://10.0.0.1:6443", "10.0.0.1:6443", True, id="address-and-port"),
        pytest.param("https://10.0.0.1:6443", "10.0.0.2", False, id="another-address"),
        pytest.param("https://[fd00::1]:6443", "fd00::1", True, id="an-ipv6-address"),
        pytest.param("https://[fd00::1]:6443", "[fd00::1]:6443", True, id="ipv6-and-port"),
        pytest.param("https://[fd00::1]:6443", "[fd00::1]:443", False, id="ipv6-and-another-port"),
        pytest.param("https://[fd00::1]:6443", "fd00::/16", True, id="an-ipv6-prefix"),
    ],
)
def test_exceptions_from_the_proxy(server: str, excepted: str, direct: bool) -> None:
    environ = {"HTTPS_PROXY": PROXY, "NO_PROXY": excepted}
    assert ("" if direct else PROXY) == proxy_for(server, environ)
    environ = {"https_proxy": PROXY, "no_proxy": excepted}
    assert ("" if direct else PROXY) == proxy_for(server, environ)
