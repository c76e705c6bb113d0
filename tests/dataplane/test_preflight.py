"""A look at what others left: what it finds, and what is said where it may not look."""

import pytest

from kubeproxy.base.errors import KernelError
from kubeproxy.dataplane.preflight import NotInstalled, Scan


def raising(error: Exception) -> Scan:
    scan = Scan()

    def fails() -> int:
        raise error

    assert scan.at("sets", fails, 7) == 7
    return scan


def test_what_a_look_finds() -> None:
    scan = Scan()
    assert scan.at("sets", lambda: 3, 0) == 3
    assert scan.unseen == {}


@pytest.mark.parametrize(
    ("error", "unseen"),
    [
        pytest.param(
            PermissionError(),
            {"sets": "run this check as root, with CAP_NET_ADMIN"},
            id="without-rights",
        ),
        pytest.param(FileNotFoundError(), {}, id="the-kernel-has-none"),
        pytest.param(NotInstalled("ipset"), {"sets": "install ipset"}, id="without-the-program"),
        pytest.param(
            KernelError("no memory"), {"sets": "see why this fails: no memory"}, id="a-failure"
        ),
    ],
)
def test_what_could_not_be_seen(error: Exception, unseen: dict[str, str]) -> None:
    assert unseen == raising(error).unseen
