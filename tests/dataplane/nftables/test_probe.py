import pytest

from kubeproxy.dataplane.nftables.probe import KernelTooOldError, check_release


@pytest.mark.parametrize("release", ["5.13.0", "5.14.0-362.el9.x86_64", "6.18.44", "7.0", "odd"])
def test_these_kernels_are_tried(release: str) -> None:
    check_release(release)


@pytest.mark.parametrize("release", ["5.12.19", "4.19.0-26-amd64", "5.4"])
def test_these_kernels_are_refused(release: str) -> None:
    with pytest.raises(KernelTooOldError, match=r"requires kernel 5\.13 or later, this is"):
        check_release(release)
