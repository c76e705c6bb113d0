"""What this process may do, and what that says of the proxy."""

import pytest

from kubeproxy.dataplane.preflight import Grade
from kubeproxy.tools.check.rights import NET_ADMIN, NET_RAW, SYS_MODULE, Rights, effective
from kubeproxy.tools.check.rights import right_findings as findings

ALL = 1 << NET_ADMIN | 1 << NET_RAW | 1 << SYS_MODULE
ROOT = Rights(0, ALL, administers=True)
CONFINED = Rights(0, 1 << NET_ADMIN, administers=True)
POWERLESS = Rights(0, 0, administers=False)
USER = Rights(1000, 0, administers=False)
CAPABLE_USER = Rights(1000, 1 << NET_ADMIN, administers=True)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param("Uid:\t0\nCapEff:\t0000000000003000\nCapBnd:\t0\n", 0x3000, id="some"),
        pytest.param("Uid:\t0\n", 0, id="a-kernel-that-does-not-say"),
    ],
)
def test_capabilities(status: str, expected: int) -> None:
    assert expected == effective(status)


@pytest.mark.parametrize(
    ("rights", "expected"),
    [
        pytest.param(ROOT, "root", id="root"),
        pytest.param(POWERLESS, "root without CAP_NET_ADMIN here", id="root-of-a-container"),
        pytest.param(USER, "user 1000 without CAP_NET_ADMIN here", id="a-user"),
        pytest.param(CAPABLE_USER, "user 1000", id="a-user-with-the-capability"),
    ],
)
def test_the_user_that_looked(rights: Rights, expected: str) -> None:
    assert expected == str(rights)


@pytest.mark.parametrize(
    ("rights", "expected"),
    [
        pytest.param(ROOT, True, id="root"),
        pytest.param(CONFINED, False, id="root-of-a-container"),
        pytest.param(USER, True, id="a-user-says-nothing-of-the-proxy"),
    ],
)
def test_whether_a_proxy_in_its_place_loads_modules(rights: Rights, expected: bool) -> None:
    assert expected is rights.may_load_modules


@pytest.mark.parametrize(
    ("rights", "expected"),
    [
        pytest.param(ROOT, {"CAP_NET_ADMIN": Grade.OK, "CAP_NET_RAW": Grade.OK}, id="root"),
        pytest.param(
            CONFINED, {"CAP_NET_ADMIN": Grade.OK, "CAP_NET_RAW": Grade.MISSING}, id="confined"
        ),
        pytest.param(
            POWERLESS,
            {"CAP_NET_ADMIN": Grade.MISSING, "CAP_NET_RAW": Grade.MISSING},
            id="root-of-a-container-with-nothing",
        ),
        pytest.param(USER, {"rights": Grade.UNKNOWN}, id="a-user"),
    ],
)
def test_findings(rights: Rights, expected: dict[str, Grade]) -> None:
    assert expected == {f.what: f.state for f in findings(rights, legacy=False)}


@pytest.mark.parametrize(
    ("legacy", "expected"),
    [
        pytest.param(False, ("ipvs",), id="only-rules-that-look-into-sets"),
        pytest.param(True, ("iptables", "ipvs"), id="the-legacy-programs-always"),
    ],
)
def test_modes_that_need_raw_sockets(legacy: bool, expected: tuple[str, ...]) -> None:
    _, raw = findings(CONFINED, legacy=legacy)
    assert expected == raw.modes
