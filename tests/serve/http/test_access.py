"""Which clients may read pages that are not public."""

import pytest

from kubeproxy.serve.http.access import SOCKET_PEER, PageAccess, is_loopback, refusal
from kubeproxy.serve.http.answer import text
from kubeproxy.serve.http.request import Request

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
def test_which_clients_are_on_this_host(peer: str, expected: bool) -> None:
    assert expected == is_loopback(peer)


def refused(
    access: PageAccess, peer: str, host: str = "localhost", method: str = "GET", **headers: str
) -> str:
    """Status and text of the refusal; "" when there is none."""
    named = {f"sec-fetch-{name}": value for name, value in headers.items()}
    request = Request(method, "/status", headers={"host": host, **named}, peer=peer, trusted=True)
    answer = refusal(request, access, "the status", "statusPage")
    if answer is None:
        return ""
    assert isinstance(answer.body, bytes)
    return f"{answer.status} {answer.body.decode()}"


@pytest.mark.parametrize(
    ("access", "peer", "host"),
    [
        pytest.param(PageAccess.LOCAL, HERE, "localhost:10249", id="from-this-host"),
        pytest.param(PageAccess.LOCAL, HERE, "LocalHost", id="in-capitals"),
        pytest.param(PageAccess.LOCAL, HERE, "127.0.0.1:10249", id="by-address"),
        pytest.param(PageAccess.LOCAL, "::1", "[::1]:10249", id="by-ipv6-address"),
        pytest.param(PageAccess.LOCAL, HERE, "198.51.100.10", id="by-another-address-of-the-node"),
        pytest.param(PageAccess.LOCAL, HERE, "", id="without-a-name"),
        pytest.param(PageAccess.LOCAL, SOCKET_PEER, "x", id="through-the-socket"),
        pytest.param(
            PageAccess.NONE, SOCKET_PEER, "x", id="through-the-socket-whatever-the-setting"
        ),
        pytest.param(PageAccess.ALL, ELSEWHERE, "kestrel:10249", id="all-from-elsewhere"),
    ],
)
def test_which_clients_may_read(access: PageAccess, peer: str, host: str) -> None:
    assert refused(access, peer, host) == ""


@pytest.mark.parametrize(
    ("peer", "yours"),
    [
        pytest.param(ELSEWHERE, "192.0.2.50", id="from-elsewhere"),
        pytest.param("::ffff:192.0.2.50", "192.0.2.50", id="through-a-socket-of-both-families"),
        pytest.param("fe80::1%eth0", "fe80::1%eth0", id="from-the-same-link"),
        pytest.param("", "not known", id="from-nowhere"),
    ],
)
def test_remote_clients_learn_where_to_ask(peer: str, yours: str) -> None:
    expected = (
        "403 the status is shown to clients with a loopback address only, and yours is"
        f" {yours}: on the node, ask for http://localhost:10249/status as root, or set"
        " statusPage: all (--status-page=all)\n"
    )
    assert expected == refused(PageAccess.LOCAL, peer, "198.51.100.10:10249")


def test_other_users_of_this_host_may_not() -> None:
    request = Request("GET", "/status", headers={"host": "localhost:10249"}, peer=HERE)
    answer = refusal(request, PageAccess.LOCAL, "the status", "statusPage")
    assert answer == text(
        "the status is shown to root and the user of kube-proxy only, and you are neither: on the"
        " node, ask for http://localhost:10249/status as root, or set statusPage: all"
        " (--status-page=all)\n",
        403,
    )
    assert refusal(request, PageAccess.ALL, "the status", "statusPage") is None


@pytest.mark.parametrize(
    "host",
    [
        pytest.param("evil.example:10249", id="that-resolves-to-this-host"),
        pytest.param("localhost.evil.example:10249", id="that-begins-like-ours"),
        pytest.param("localhost@evil.example:10249", id="with-a-user"),
    ],
)
def test_no_client_is_answered_under_another_name(host: str) -> None:
    expected = (
        "403 the status is shown under the name of this host only (localhost or an address): on"
        " the node, ask for http://localhost:10249/status as root, or set statusPage: all"
        " (--status-page=all)\n"
    )
    assert expected == refused(PageAccess.LOCAL, HERE, host)


@pytest.mark.parametrize(
    "host",
    [
        pytest.param("127.0.0.1:10249, evil.example", id="two-headers"),
        pytest.param("evil.example, 127.0.0.1", id="two-headers-the-address-last"),
        pytest.param("localhost:1@evil.example", id="a-password"),
        pytest.param("[::1]evil.example", id="an-address-and-more"),
    ],
)
def test_no_client_is_answered_under_an_invalid_name(host: str) -> None:
    assert refused(PageAccess.LOCAL, HERE, host).startswith("403 ")


@pytest.mark.parametrize(
    ("site", "dest"),
    [
        pytest.param("none", "document", id="typed"),
        pytest.param("same-origin", "empty", id="by-our-own-script"),
        pytest.param("cross-site", "document", id="by-a-link-of-another-site"),
    ],
)
def test_browsers_may_read(site: str, dest: str) -> None:
    assert refused(PageAccess.LOCAL, HERE, site=site, dest=dest) == ""


@pytest.mark.parametrize(
    ("site", "dest"),
    [
        pytest.param("cross-site", "empty", id="by-a-script"),
        pytest.param("cross-site", "image", id="as-a-picture"),
        pytest.param("cross-site", "iframe", id="in-a-frame"),
        pytest.param("same-site", "empty", id="from-another-port-of-this-host"),
    ],
)
def test_pages_of_other_sites_may_not(site: str, dest: str) -> None:
    expected = (
        "403 the status is shown to no page of another site: on the node, ask for"
        " http://localhost/status as root, or set statusPage: all (--status-page=all)\n"
    )
    assert expected == refused(PageAccess.LOCAL, HERE, site=site, dest=dest)
    assert refused(PageAccess.ALL, HERE, site=site, dest=dest) == ""


def test_the_setting_none_shows_it_to_no_client() -> None:
    expected = "404 the status is not shown here: the setting statusPage is none\n"
    assert expected == refused(PageAccess.NONE, HERE)


@pytest.mark.parametrize("peer", [HERE, SOCKET_PEER])
def test_nothing_can_be_changed(peer: str) -> None:
    expected = "405 DELETE is not possible here: the status can only be read\n"
    assert expected == refused(PageAccess.ALL, peer, method="DELETE")
    answer = refusal(
        Request("PUT", "/status", peer=peer), PageAccess.ALL, "the status", "statusPage"
    )
    assert answer is not None
    assert ("Allow", "GET, HEAD") in answer.headers
    assert refused(PageAccess.ALL, peer, method="HEAD") == ""
