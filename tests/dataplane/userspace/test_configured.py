"""What the configuration says of userspace mode."""

import pytest

from kubeproxy.config.types import KubeProxyConfiguration, Userspace
from kubeproxy.config.values import Duration, of_seconds
from kubeproxy.dataplane.userspace.configured import problems, settings
from kubeproxy.dataplane.userspace.settings import Mapped, UserspaceSettings

FORM = "must be ADDRESS:PORT=NAMESPACE/SERVICE:PORT, for instance 127.0.0.1:8080=default/web:80;"


def with_map(*texts: str) -> KubeProxyConfiguration:
    return KubeProxyConfiguration(userspace=Userspace(port_map=texts))


def test_defaults() -> None:
    assert settings(KubeProxyConfiguration()) == UserspaceSettings()
    assert list(problems(KubeProxyConfiguration())) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", (0, 0)),
        ("0", (0, 0)),
        ("0-0", (0, 0)),
        ("3000", (3000, 3000)),
        ("3000-3010", (3000, 3010)),
        (" 3000+10 ", (3000, 3010)),
        ("65000+1000", (65000, 65535)),
    ],
)
def test_ranges(text: str, expected: tuple[int, int]) -> None:
    found = settings(KubeProxyConfiguration(port_range=text))
    assert expected == (found.first_port, found.last_port)
    assert list(problems(KubeProxyConfiguration(port_range=text))) == []


@pytest.mark.parametrize("text", ["x", "1-", "10-9", "0-9", "1-65536", "1-2-3"])
def test_what_is_no_range(text: str) -> None:
    (problem,) = problems(KubeProxyConfiguration(port_range=text))
    assert problem.startswith(f'PortRange: Invalid value: "{text}": must be FIRST-LAST, FIRST+')


def test_places() -> None:
    config = with_map("127.0.0.1:8080=default/web:80", "[::1]:53=kube-system/dns")
    assert list(problems(config)) == []
    assert settings(config).mapped == (
        Mapped("127.0.0.1", 8080, "default", "web", "80"),
        Mapped("::1", 53, "kube-system", "dns"),
    )


@pytest.mark.parametrize(
    "text",
    [
        "8080=default/web",
        "localhost:8080=default/web",
        "127.0.0.1:0=default/web",
        "127.0.0.1:http=default/web",
        "127.0.0.1:8080=web",
        "127.0.0.1:8080",
    ],
)
def test_what_is_no_place(text: str) -> None:
    (problem,) = problems(with_map("127.0.0.1:1=a/b", text))
    path = "KubeProxyUserspaceConfiguration.PortMap[1]"
    assert problem.startswith(f'{path}: Invalid value: "{text}": {FORM}')


def test_what_is_out_of_range() -> None:
    config = KubeProxyConfiguration(udp_idle_timeout=Duration(), userspace=Userspace(workers=0))
    workers, idle = problems(config)
    assert workers.endswith("Workers: Invalid value: 0: must be within the range [1, 64]")
    assert idle == 'UDPIdleTimeout: Invalid value: "0s": must be greater than 0'
    assert settings(KubeProxyConfiguration(udp_idle_timeout=of_seconds(5))).udp_idle_seconds == 5
