from pathlib import Path

import pytest

from kubeproxy.base.inet import Family
from kubeproxy.linux.families import supported_families
from kubeproxy.linux.links import interface_addresses


def test_the_loopback_has_its_address() -> None:
    assert "127.0.0.1" in interface_addresses(Family.IPV4)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({}, (Family.IPV4,), id="no-ipv6-in-the-kernel"),
        pytest.param({"net/if_inet6": ""}, (Family.IPV4, Family.IPV6), id="ipv6"),
        pytest.param(
            {"net/if_inet6": "", "sys/net/ipv6/conf/all/disable_ipv6": "1\n"},
            (Family.IPV4,),
            id="turned-off",
        ),
        pytest.param(
            {"net/if_inet6": "", "sys/net/ipv6/conf/all/disable_ipv6": "0\n"},
            (Family.IPV4, Family.IPV6),
            id="not-turned-off",
        ),
    ],
)
def test_families(tmp_path: Path, files: dict[str, str], expected: tuple[Family, ...]) -> None:
    for name, text in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert expected == supported_families(tmp_path)
