import pytest

from kubeproxy.config.errors import ValueTextError
from kubeproxy.config.hostport import split_host_port, with_port


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("10.0.0.1:80", ("10.0.0.1", "80"), id="ipv4"),
        pytest.param("[fd00::1]:80", ("fd00::1", "80"), id="ipv6-in-brackets"),
        pytest.param(":80", ("", "80"), id="no-host"),
        pytest.param("[]:", ("", ""), id="nothing-at-all"),
    ],
)
def test_addresses_are_split(text: str, expected: tuple[str, str]) -> None:
    assert expected == split_host_port(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("foo", "address foo: missing port in address", id="no-port"),
        pytest.param("[::1]", "address [::1]: missing port in address", id="only-brackets"),
        pytest.param("[::1", "address [::1: missing ']' in address", id="an-open-bracket"),
        pytest.param("::1:80", "address ::1:80: too many colons in address", id="no-brackets"),
        pytest.param(
            "[::1]:80:90", "address [::1]:80:90: too many colons in address", id="two-ports"
        ),
        pytest.param(
            "a]b:80", "address a]b:80: unexpected bracket in address", id="a-stray-bracket"
        ),
    ],
)
def test_what_cannot_be_split_is_refused(text: str, expected: str) -> None:
    with pytest.raises(ValueTextError) as caught:
        split_host_port(text)
    assert expected == str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("10.0.0.1", "10.0.0.1:99", id="a-bare-address-gets-the-port"),
        pytest.param("fd00::1", "[fd00::1]:99", id="a-bare-ipv6-address-gets-brackets-too"),
        pytest.param("10.0.0.1:80", "10.0.0.1:80", id="a-port-stays"),
        pytest.param("nonsense", "nonsense", id="nonsense-is-left-to-validation"),
    ],
)
def test_ports_are_added(text: str, expected: str) -> None:
    assert expected == with_port(text, 99)
