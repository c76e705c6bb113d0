import contextlib
import socket

import pytest

from kubeproxy.linux.descriptors import KEPT
from kubeproxy.serve.http.listening import ListenError, Network, listen
from scarcity import room_for


def port_of(made: socket.socket) -> int:
    port = made.getsockname()[1]
    assert isinstance(port, int)
    return port


def reaches(address: str, port: int) -> bool:
    with contextlib.suppress(ConnectionRefusedError):
        socket.create_connection((address, port), timeout=5).close()
        return True
    return False


@pytest.mark.parametrize(
    ("address", "network", "hears"),
    [
        pytest.param("0.0.0.0", Network.TCP, (True, True), id="any-ipv4-is-both"),
        pytest.param("::", Network.TCP, (True, True), id="any-ipv6-is-both"),
        pytest.param("127.0.0.1", Network.TCP, (True, False), id="one-ipv4"),
        pytest.param("::1", Network.TCP, (False, True), id="one-ipv6"),
        pytest.param("0.0.0.0", Network.TCP4, (True, False), id="tcp4"),
        pytest.param("::", Network.TCP6, (False, True), id="tcp6"),
    ],
)
def test_who_is_heard(address: str, network: Network, hears: tuple[bool, bool]) -> None:
    with listen(address, 0, network) as made:
        port = port_of(made)
        assert hears == (reaches("127.0.0.1", port), reaches("::1", port))


def test_without_ipv6_any_is_any_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(family: int, kind: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(97, "Address family not supported by protocol")
        return real(family, kind)

    real = socket.socket
    monkeypatch.setattr(socket, "socket", refuse)
    with listen("::", 0) as made:
        assert made.getsockname()[0] == "0.0.0.0"


@pytest.mark.parametrize(
    ("address", "network", "error"),
    [
        pytest.param(
            "127.0.0.1",
            Network.TCP,
            "listen tcp 127.0.0.1:{}: bind: address already in use",
            id="in-use",
        ),
        pytest.param(
            "0.0.0.0",
            Network.TCP,
            "listen tcp 0.0.0.0:{}: bind: address already in use",
            id="in-use-somewhere",
        ),
        pytest.param(
            "192.0.2.1",
            Network.TCP4,
            "listen tcp4 192.0.2.1:{}: bind: cannot assign requested address",
            id="not-ours",
        ),
        pytest.param(
            "2001:db8::1",
            Network.TCP6,
            "listen tcp6 [2001:db8::1]:{}: bind: cannot assign requested address",
            id="not-ours-ipv6",
        ),
    ],
)
def test_a_refusal_is_worded_as_go_does(address: str, network: Network, error: str) -> None:
    with listen("127.0.0.1", 0) as first:
        port = port_of(first)
        with pytest.raises(ListenError) as caught:
            listen(address, port, network)
    assert error.format(port) == str(caught.value)


def test_the_last_descriptors_are_not_for_listeners() -> None:
    with room_for(KEPT), pytest.raises(ListenError) as caught:
        listen("127.0.0.1", 0)
    assert str(caught.value).endswith("bind: too many open files")
    with room_for(KEPT + 1):
        listen("127.0.0.1", 0).close()
