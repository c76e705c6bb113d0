import contextlib
import socket

import pytest

from kubeproxy.base.inet import Family
from kubeproxy.linux.descriptors import KEPT
from kubeproxy.serve.http.listening import ListenError, listen
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
    ("address", "family", "reached"),
    [
        pytest.param("0.0.0.0", None, (True, True), id="any-ipv4-is-both"),
        pytest.param("::", None, (True, True), id="any-ipv6-is-both"),
        pytest.param("127.0.0.1", None, (True, False), id="one-ipv4"),
        pytest.param("::1", None, (False, True), id="one-ipv6"),
        pytest.param("0.0.0.0", Family.IPV4, (True, False), id="tcp4"),
        pytest.param("::", Family.IPV6, (False, True), id="tcp6"),
    ],
)
def test_which_clients_reach_it(
    address: str, family: Family | None, reached: tuple[bool, bool]
) -> None:
    with listen(address, 0, family) as made:
        port = port_of(made)
        assert reached == (reaches("127.0.0.1", port), reaches("::1", port))


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
    ("address", "family", "error"),
    [
        pytest.param(
            "127.0.0.1",
            None,
            "listen tcp 127.0.0.1:{}: bind: address already in use",
            id="in-use",
        ),
        pytest.param(
            "0.0.0.0",
            None,
            "listen tcp 0.0.0.0:{}: bind: address already in use",
            id="in-use-somewhere",
        ),
        pytest.param(
            "192.0.2.1",
            Family.IPV4,
            "listen tcp4 192.0.2.1:{}: bind: cannot assign requested address",
            id="not-ours",
        ),
        pytest.param(
            "2001:db8::1",
            Family.IPV6,
            "listen tcp6 [2001:db8::1]:{}: bind: cannot assign requested address",
            id="not-ours-ipv6",
        ),
    ],
)
def test_a_refusal_is_worded_as_go_does(address: str, family: Family | None, error: str) -> None:
    with listen("127.0.0.1", 0) as first:
        port = port_of(first)
        with pytest.raises(ListenError) as caught:
            listen(address, port, family)
    assert error.format(port) == str(caught.value)


def test_the_last_descriptors_are_not_for_listeners() -> None:
    with room_for(KEPT), pytest.raises(ListenError) as caught:
        listen("127.0.0.1", 0)
    assert str(caught.value).endswith("bind: too many open files")
    with room_for(KEPT + 1):
        listen("127.0.0.1", 0).close()
