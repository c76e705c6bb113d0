import pytest

from kubeproxy.serve.http.caller import Caller, caller_of


@pytest.mark.parametrize(
    ("peer", "local", "client", "own"),
    [
        pytest.param("192.0.2.7", "198.51.100.10", "192.0.2.7", False, id="an-address"),
        pytest.param("::ffff:192.0.2.7", "::ffff:198.51.100.10", "192.0.2.7", False, id="mapped"),
        pytest.param("2001:db8::7:1", "2001:db8:aa::10", "2001:db8::", False, id="a-64-is-one"),
        pytest.param("2001:db8:0:1::7", "2001:db8::10", "2001:db8:0:1::", False, id="another-64"),
        pytest.param("fe80::7%eth0", "fe80::1%eth0", "fe80::", False, id="on-the-wire"),
        pytest.param("127.0.0.1", "127.0.0.1", "loopback", True, id="loopback"),
        pytest.param("127.9.9.9", "127.0.0.1", "loopback", True, id="all-of-loopback-is-one"),
        pytest.param("::ffff:127.0.0.1", "::ffff:127.0.0.1", "loopback", True, id="mapped-lo"),
        pytest.param("::1", "::1", "loopback", True, id="loopback-ipv6"),
        pytest.param("198.51.100.10", "198.51.100.10", "198.51.100.10", True, id="this-node"),
        pytest.param("2001:db8::10", "2001:db8::10", "2001:db8::", True, id="this-node-ipv6"),
        pytest.param("", "198.51.100.10", "", False, id="gone-already"),
    ],
)
def test_who_calls(peer: str, local: str, client: str, own: bool) -> None:
    assert Caller(80, client, own) == caller_of(80, peer, local)
