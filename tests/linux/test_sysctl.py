from pathlib import Path

import pytest

from kubeproxy.base.errors import KernelError
from kubeproxy.linux.sysctl import ensure_sysctl, is_fixed, read_sysctl


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "net/ipv4").mkdir(parents=True)
    (tmp_path / "net/ipv4/ip_forward").write_text("0\n")
    return tmp_path


def test_a_setting_is_written_when_it_differs(root: Path) -> None:
    assert ensure_sysctl("net.ipv4.ip_forward", 1, root)
    assert read_sysctl("net.ipv4.ip_forward", root) == 1
    assert not ensure_sysctl("net.ipv4.ip_forward", 1, root)


def test_a_setting_that_the_kernel_lacks(root: Path) -> None:
    assert read_sysctl("net.ipv4.nonsense", root) is None


def test_what_cannot_be_read_is_named(root: Path) -> None:
    (root / "net/ipv4/ip_forward").write_text("many")
    with pytest.raises(KernelError, match=r"cannot read sysctl net\.ipv4\.ip_forward"):
        read_sysctl("net.ipv4.ip_forward", root)


def test_what_cannot_be_set_is_named(root: Path) -> None:
    with pytest.raises(KernelError, match=r"cannot set sysctl net\.ipv6\.x to 1"):
        ensure_sysctl("net.ipv6.x", 1, root)


def test_a_setting_that_cannot_be_set_is_recognised(root: Path) -> None:
    assert not is_fixed("net.ipv4.ip_forward", root)
    (root / "net/ipv4/ip_forward").chmod(0o444)
    assert is_fixed("net.ipv4.ip_forward", root)
    assert not is_fixed("net.ipv4.nonsense", root)
