import errno
from collections.abc import Sequence

import pytest

from fakes.nftables import FakeNftables
from kubeproxy.dataplane.nftables import names
from kubeproxy.dataplane.nftables.probe import (
    KernelTooOldError,
    check_release,
    probe,
    probe_healing,
)
from kubeproxy.linux.netlink.message import MessageError
from kubeproxy.linux.netlink_socket import Refused
from world import Mode, node

HERE = node(Mode.NFTABLES)


@pytest.mark.parametrize("release", ["5.13.0", "5.14.0-362.el9.x86_64", "6.18.44", "7.0", "odd"])
def test_these_kernels_are_tried(release: str) -> None:
    check_release(release)


@pytest.mark.parametrize("release", ["5.12.19", "4.19.0-26-amd64", "5.4"])
def test_these_kernels_are_refused(release: str) -> None:
    with pytest.raises(KernelTooOldError, match=r"requires kernel 5\.13 or later, this is"):
        check_release(release)


class Old(FakeNftables):
    """A kernel that knows no time-outs of connections as objects."""

    def rehearse(self, messages: Sequence[bytes]) -> None:
        for index, message in enumerate(messages):
            if names.SYN_TIMEOUT.encode() in message:
                raise Refused("rehearse", MessageError(index, errno.EOPNOTSUPP))


def test_a_kernel_that_can_heal() -> None:
    assert probe_healing(FakeNftables(), HERE, wanted=True) == ""


def test_a_kernel_that_cannot_heal_can_do_the_rest() -> None:
    probe(Old(), HERE)
    why_not = probe_healing(Old(), HERE, wanted=False)
    assert f"it refuses the time-outs {names.SYN_TIMEOUT}" in why_not


def test_healing_that_the_kernel_cannot_do_is_refused_with_what_to_do() -> None:
    with pytest.raises(KernelTooOldError) as caught:
        probe_healing(Old(), HERE, wanted=True)
    assert "what nftables.healing needs" in str(caught.value)
    assert str(caught.value).endswith("or set nftables.healing.parts to none")
