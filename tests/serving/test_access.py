"""Who may read what is not meant for everybody."""

import pytest

from kubeproxy.serving.access import SOCKET_PEER, Access, is_loopback, refusal
from kubeproxy.serving.request import Request

HERE = "127.0.0.1"
ELSEWHERE = "192.0.2.50"


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("198.51.100.10", False),
        ("2001:db8::1", False),
        ("::ffff:192.0.2.1", False),
        ("fe80::1%eth0", False),
        ("", False),
        (SOCKET_PEER, False),
    ],
)
def test_who_is_on_this_host(peer: str, expected: bool) -> None:
    assert expected == is_loopback(peer)


def refused(access: Access, peer: str, host: str = "localhost", method: str = "GET") -> str:
    """Status and text of the refusal; "" when there is none."""
    request = Request(method, "/status", headers={"host": host}, peer=peer)
    answer = refusal(request, access, "the status", "statusPage")
    if answer is None:
        return ""
    assert isinstance(answer.body, bytes)
    return f"{answer.status} {answer.body.decode()}"


@pytest.mark.parametrize(
    ("access", "peer", "host"),
    [
        pytest.param(Access.LOCAL, HERE, "localhost:10249", id="from-this-host"),
        pytest.param(Access.LOCAL, HERE, "LocalHost", id="in-capitals"),
        pytest.param(Access.LOCAL, HERE, "127.0.0.1:10249", id="by-address"),
        pytest.param(Access.LOCAL, "::1", "[::1]:10249", id="by-ipv6-address"),
        pytest.param(Access.LOCAL, HERE, "198.51.100.10", id="by-another-address-of-the-node"),
        pytest.param(Access.LOCAL, HERE, "", id="without-a-name"),
        pytest.param(Access.LOCAL, SOCKET_PEER, "x", id="through-the-socket"),
        pytest.param(Access.NONE, SOCKET_PEER, "x", id="through-the-socket-whatever-the-setting"),
        pytest.param(Access.ALL, ELSEWHERE, "kestrel:10249", id="all-from-elsewhere"),
    ],
)
def test_who_may_look(access: Access, peer: str, host: str) -> None:
    assert refused(access, peer, host) == ""


@pytest.mark.parametrize(
    ("access", "peer", "host", "expected"),
    [
        pytest.param(
            Access.LOCAL,
            ELSEWHERE,
            "localhost",
            "403 the status is shown to clients of this host only, and you are 192.0.2.50: ask"
            " from the node, or set statusPage: all (--status-page=all)\n",
            id="from-elsewhere",
        ),
        pytest.param(
            Access.LOCAL,
            "",
            "localhost",
            "403 the status is shown to clients of this host only, and you are an unknown address:"
            " ask from the node, or set statusPage: all (--status-page=all)\n",
            id="from-nowhere",
        ),
        pytest.param(
            Access.LOCAL,
            HERE,
            "127.0.0.1:10249, evil.example",
            "403 the status is shown under the name of this host only (localhost or an address):"
            " ask for http://localhost/status, or set statusPage: all (--status-page=all)\n",
            id="under-two-names",
        ),
        pytest.param(
            Access.LOCAL,
            HERE,
            "evil.example:10249",
            "403 the status is shown under the name of this host only (localhost or an address):"
            " ask for http://localhost/status, or set statusPage: all (--status-page=all)\n",
            id="under-a-name-that-somebody-points-here",
        ),
        pytest.param(
            Access.NONE,
            HERE,
            "localhost",
            "404 the status is not shown here: the setting statusPage is none\n",
            id="nobody",
        ),
    ],
)
def test_who_may_not(access: Access, peer: str, host: str, expected: str) -> None:
    assert expected == refused(access, peer, host)


@pytest.mark.parametrize("peer", [HERE, SOCKET_PEER])
def test_nothing_can_be_changed(peer: str) -> None:
    expected = "405 DELETE is not possible here: the status can only be read\n"
    assert expected == refused(Access.ALL, peer, method="DELETE")
    assert refused(Access.ALL, peer, method="HEAD") == ""
