import pytest

from kubeproxy.base.inet import Protocol, pack
from kubeproxy.linux.netlink.conntrack import Connection
from kubeproxy.tools.trace.tracked import lines, words


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(None, "not tracked any more", id="gone"),
        pytest.param(0x128, "destination translated", id="the-first-packet"),
        pytest.param(0x18, "source translated", id="the-source-only"),
        pytest.param(0x8, "new", id="nothing-yet"),
        pytest.param(
            0x41AE,
            "answered, assured, destination translated, on the fast path",
            id="on-the-fast-path",
        ),
    ],
)
def test_what_a_status_means(status: int | None, expected: str) -> None:
    assert expected == words(status)


def test_each_connection_has_a_line() -> None:
    client, to = pack("fd40::50") + b"\x80\xe8", pack("fd12::21") + b"\x00\x35"
    connection = Connection(Protocol.UDP, client, to, to, client)
    expected = "  UDP [fd40::50]:33000 to [fd12::21]:53: answered, on the fast path"
    assert list(lines([(connection, 0x4002)])) == [expected]
