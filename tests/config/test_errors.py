import pytest

from kubeproxy.config.errors import closest

KNOWN = ("proxy-mode", "masquerade-all", "cleanup", "strictARP")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("proxymode", "proxy-mode", id="without-dashes"),
        pytest.param("masquerade_al", "masquerade-all", id="with-underscores-and-a-letter-less"),
        pytest.param("strictArp", "strictARP", id="in-other-capitals"),
        pytest.param("unrelated", None, id="nothing-like-it"),
    ],
)
def test_the_closest_name(name: str, expected: str | None) -> None:
    assert expected == closest(name, KNOWN)
