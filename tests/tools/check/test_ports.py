"""Which sockets have the proxy's ports."""

import pytest

from kubeproxy.dataplane.preflight import Grade
from kubeproxy.tools.check.ports import (
    ListeningSocket,
    WantedPort,
    holder,
    listeners_in,
    port_finding,
)

TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2809 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1
   1: 0100007F:C350 0100007F:2809 01 00000000:00000000 00:00000000 00000000     0        0 4712 1
   2: short
"""
TCP6 = """\
  sl  local_address                         remote_address  st
   0: 00000000000000000000000000000000:2810 0:0 0A 0:0 0:0 0 0 0 9
   1: B80D0120000000000000000001000000:2810 0:0 0A 0:0 0:0 0 0 0 8
"""
HEALTH = WantedPort("health", "0.0.0.0:10256", "healthzBindAddress")
METRICS = WantedPort("metrics", "127.0.0.1:10249", "metricsBindAddress")


def test_sockets_that_listen() -> None:
    assert list(listeners_in(TCP)) == [ListeningSocket("127.0.0.1", 10249, 4711)]
    assert list(listeners_in(TCP6)) == [
        ListeningSocket("::", 10256, 9),
        ListeningSocket("2001:db8::1", 10256, 8),
    ]


@pytest.mark.parametrize(
    ("where", "listener", "expected"),
    [
        pytest.param("127.0.0.1:10249", ("127.0.0.1", 10249), True, id="the-same-address"),
        pytest.param("127.0.0.1:10249", ("127.0.0.2", 10249), False, id="another-address"),
        pytest.param("127.0.0.1:10249", ("127.0.0.1", 10248), False, id="another-port"),
        pytest.param(
            "127.0.0.1:10249", ("::", 10249), True, id="another-socket-has-every-address"
        ),
        pytest.param(
            "0.0.0.0:10256", ("10.0.0.1", 10256), True, id="the-proxy-wants-every-address"
        ),
        pytest.param("[::1]:10249", ("::1", 10249), True, id="ipv6"),
        pytest.param("nonsense", ("::", 10249), False, id="no-address-at-all"),
    ],
)
def test_which_socket_has_a_port(where: str, listener: tuple[str, int], expected: bool) -> None:
    held = holder(WantedPort("health", where, "field"), [ListeningSocket(*listener, 1)])
    assert expected is (held is not None)


def test_a_port_that_is_free() -> None:
    finding = port_finding(METRICS, holder(METRICS, []), {})
    assert (finding.what, finding.state) == ("metrics 127.0.0.1:10249", Grade.OK)


@pytest.mark.parametrize(
    ("owner", "vital", "state", "said"),
    [
        pytest.param("kube-proxy (pid 7)", True, Grade.WARNING, "taken by kube-proxy", id="ours"),
        pytest.param("nginx (pid 7)", False, Grade.WARNING, "goes on without it", id="others"),
        pytest.param("nginx (pid 7)", True, Grade.MISSING, "ends without it", id="hard-fail"),
        pytest.param("", False, Grade.WARNING, "cannot be seen", id="in-another-container"),
    ],
)
def test_a_port_that_is_taken(owner: str, vital: bool, state: Grade, said: str) -> None:
    wanted = WantedPort(HEALTH.purpose, HEALTH.where, HEALTH.field, vital)
    owners = {9: owner} if owner else {}
    finding = port_finding(wanted, ListeningSocket("::", 10256, 9), owners)
    assert (state, True) == (finding.state, said in finding.detail)
