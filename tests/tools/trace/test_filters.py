import pytest

from kubeproxy.base.errors import OperatorError
from kubeproxy.base.inet import Prefix
from kubeproxy.linux.netlink.conntrack import connection_in
from kubeproxy.tools.trace.filters import Filter, accepts, parse
from kubeproxy.tools.trace.index import Peer
from tools.trace.shop import event

V4, V6 = "10.112.0.21:80", "[fd12::21]:80"
L1, SIX = "10.64.3.11:8080", "[fd40::11]:8080"
X, POD6 = "192.0.2.50:40000", "[fd40::50]:40000"


@pytest.mark.parametrize(
    ("clients", "endpoints", "client", "responder", "expected"),
    [
        pytest.param([], [], X, L1, True, id="no-filter"),
        pytest.param([], [], X, V4, True, id="no-filter-and-not-translated"),
        pytest.param(["192.0.2.50"], [], X, L1, True, id="that-client"),
        pytest.param(["192.0.2.51"], [], X, L1, False, id="another-client"),
        pytest.param(["192.0.2.99/24"], [], X, L1, True, id="in-the-range"),
        pytest.param(["192.0.2.0/27"], [], X, L1, False, id="outside-the-range"),
        pytest.param(["::/0"], [], X, L1, False, id="another-family"),
        pytest.param(["fd40::/48"], [], POD6, SIX, True, id="a-range-of-ipv6"),
        pytest.param(["[fd40::50]"], [], POD6, SIX, True, id="ipv6-in-brackets"),
        pytest.param(["::/0", "192.0.2.50"], [], X, L1, True, id="one-of-the-clients"),
        pytest.param([], ["10.64.3.11"], X, L1, True, id="that-endpoint"),
        pytest.param([], ["10.64.3.11:8080"], X, L1, True, id="with-its-port"),
        pytest.param([], ["10.64.3.11:8081"], X, L1, False, id="another-port"),
        pytest.param([], ["10.64.3.12"], X, L1, False, id="another-endpoint"),
        pytest.param([], ["[fd40::11]:8080"], POD6, SIX, True, id="an-endpoint-of-ipv6"),
        pytest.param([], ["fd40::11"], POD6, SIX, True, id="ipv6-without-a-port"),
        pytest.param([], ["10.64.3.11"], X, V4, False, id="not-translated"),
        pytest.param(["192.0.2.51"], ["10.64.3.11"], X, L1, False, id="both-must-hold"),
    ],
)
def test_a_filter_accepts(
    clients: list[str],
    endpoints: list[str],
    client: str,
    responder: str,
    expected: bool,
) -> None:
    connection = connection_in(event(client, V6 if client == POD6 else V4, responder))
    assert connection is not None
    assert expected is accepts(parse(clients, endpoints), connection)


def test_what_texts_mean() -> None:
    expected = Filter((Prefix("10.0.0.1", 32), Prefix("10.1.0.0", 16)), (Peer("fd40::11", 0),))
    assert expected == parse(["10.0.0.1", "10.1.2.3/16"], ["fd40::11"])


@pytest.mark.parametrize(
    ("clients", "endpoints", "message"),
    [
        (["web"], [], "--from web: it is neither an address nor a CIDR"),
        ([], ["web"], "--endpoint web: it is no ADDRESS[:PORT]"),
        ([], ["10.0.0.1:http"], "--endpoint 10.0.0.1:http: 'http' is not a port number"),
    ],
    ids=["a-client-that-is-none", "an-endpoint-that-is-none", "a-port-that-is-none"],
)
def test_a_text_that_means_nothing(clients: list[str], endpoints: list[str], message: str) -> None:
    with pytest.raises(OperatorError) as raised:
        parse(clients, endpoints)
    assert message == str(raised.value)
