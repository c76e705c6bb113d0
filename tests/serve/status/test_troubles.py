"""What is wrong with a daemon, in which order, and with advice."""

import msgspec
import pytest

from kubeproxy.serve.status.troubles import PATIENCE, troubles
from kubeproxy.serve.status.wire import (
    DaemonStatus,
    FamilyStatus,
    FastPathStatus,
    Ignored,
    SourceGap,
)
from serve.status.web.samples import CLAIMED, IPV4, IPV6, LEFT_OUT, REFUSED, STATUS, SYNC

replace = msgspec.structs.replace
FAILED = replace(SYNC, outcome="failed")


@pytest.mark.parametrize(
    ("family", "what", "severe"),
    [
        pytest.param(IPV6, "IPv6: nothing is programmed yet", True, id="no-sync-yet"),
        pytest.param(
            replace(IPV4, last_sync=FAILED), "IPv4: the last sync failed", True, id="sync-failed"
        ),
        pytest.param(replace(IPV4, healthy=False), "IPv4: not healthy", True, id="not-healthy"),
        pytest.param(
            replace(IPV4, waiting_seconds=PATIENCE + 60),
            "IPv4: changes have waited 1 min 15 s",
            False,
            id="waiting-long",
        ),
        pytest.param(
            replace(IPV4, not_programmed=(REFUSED, REFUSED)),
            "IPv4: the kernel does not have 2 service ports",
            True,
            id="refused",
        ),
        pytest.param(
            replace(IPV4, conflicts=(CLAIMED,)),
            "IPv4: 1 address is claimed twice",
            False,
            id="conflict",
        ),
        pytest.param(
            replace(IPV4, left_out=(LEFT_OUT,)),
            "IPv4: 1 endpoint is left out for a while",
            False,
            id="an-endpoint-that-fails",
        ),
        pytest.param(
            replace(IPV4, at_ejection_limit=("shop/web:http", "shop/cart:http")),
            "IPv4: 2 service ports have too many endpoints that fail",
            False,
            id="too-many-endpoints-that-fail",
        ),
    ],
)
def test_of_a_family(family: FamilyStatus, what: str, severe: bool) -> None:
    [found] = troubles(replace(STATUS, families=(family,)))
    assert found.what.startswith(what)
    assert found.severe == severe
    assert found.advice


FAST = FastPathStatus(
    wanted=True,
    on=False,
    reason="self-test",
    why_not="IPv4: TCP packets are lost past the rules",
    after_packets=20,
    devices=(),
    left_out=(),
    connections={},
)


def test_a_fast_path_that_does_not_work() -> None:
    [found] = troubles(replace(STATUS, fast_path=FAST))
    assert (found.severe, found.cases) == (False, (("reason", FAST.why_not),))
    assert found.what == "The fast path is off"


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(replace(FAST, wanted=False, reason="disabled", why_not=""), id="not-wanted"),
        pytest.param(replace(FAST, reason="starting", why_not=""), id="about-to-start"),
        pytest.param(replace(FAST, on=True, reason="", why_not=""), id="on"),
    ],
)
def test_a_fast_path_with_which_nothing_is_wrong(path: FastPathStatus) -> None:
    assert troubles(replace(STATUS, fast_path=path)) == []


def test_what_of_its_node_it_waits_for() -> None:
    status = replace(
        STATUS, families=(IPV6,), waits_for="the addresses of Node kestrel", waits_seconds=12.0
    )
    [found] = troubles(status)
    assert found.advice == (
        "It waits for the addresses of Node kestrel, for 12 s now. Rules that an earlier process"
        " left stay in force."
    )


def test_rules_of_another_mode() -> None:
    [found] = troubles(replace(STATUS, remains=("chains remain: install iptables",)))
    assert (found.severe, found.cases) == (True, (("reason", "chains remain: install iptables"),))
    assert found.what == "Rules of another mode remain in the kernel"


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        pytest.param("no buffer space", "no buffer space", id="the-kernels-words"),
        pytest.param("", "the daemon's log says it", id="a-daemon-of-an-earlier-version"),
    ],
)
def test_a_failed_sync_has_its_reason(failure: str, expected: str) -> None:
    family = replace(IPV4, last_sync=FAILED, failure=failure)
    [found] = troubles(replace(STATUS, families=(family,)))
    assert found.cases == (("reason", expected),)


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(STATUS, id="well"),
        pytest.param(
            replace(STATUS, families=(replace(IPV4, waiting_seconds=PATIENCE),)), id="waits-little"
        ),
    ],
)
def test_nothing_is_wrong(status: DaemonStatus) -> None:
    assert troubles(status) == []


def test_cases_are_named_with_their_reasons() -> None:
    family = replace(IPV4, not_programmed=(REFUSED,), conflicts=(CLAIMED,), left_out=(LEFT_OUT,))
    refused, claimed, failing = troubles(replace(STATUS, families=(family,)))
    assert failing.cases == (("shop/web:http TCP", f"10.64.3.12:8080 is {LEFT_OUT.why}"),)
    assert refused.cases == (("shop/web:http TCP", "the kernel says: no space left"),)
    assert claimed.cases == (("*:31080/TCP", "served by shop/web:http, and not by mall/web:http"),)


@pytest.mark.parametrize(
    ("gap", "case", "severe"),
    [
        pytest.param(
            SourceGap("everything", "connection refused", PATIENCE + 45),
            ("everything, for 1 min 0 s", "connection refused"),
            True,
            id="a-server-that-is-lost",
        ),
        pytest.param(
            SourceGap("Services", "forbidden", PATIENCE),
            ("Services, for 15 s", "forbidden"),
            False,
            id="one-that-may-come-back-in-a-moment",
        ),
        pytest.param(
            SourceGap("/srv/a.yaml:1:8", "not YAML"),
            ("/srv/a.yaml:1:8", "not YAML"),
            False,
            id="a-file",
        ),
    ],
)
def test_what_the_source_cannot_tell(gap: SourceGap, case: tuple[str, str], severe: bool) -> None:
    [found] = troubles(replace(STATUS, gaps=(gap,)))
    assert found.what == (
        "Not all of API server https://192.0.2.1:6443 could be read: rules may be stale"
    )
    assert found.cases == (case,)
    assert found.severe == severe


def test_parts_of_objects_that_are_ignored() -> None:
    ignored = Ignored("Service shop/web", "spec.externalIPs: 'x' is not an address")
    [found] = troubles(replace(STATUS, ignored=(ignored,)))
    assert found.what == "1 part of an object is ignored"
    assert found.cases == (("Service shop/web", "spec.externalIPs: 'x' is not an address"),)
    assert not found.severe
    [found] = troubles(replace(STATUS, ignored=(ignored, ignored)))
    assert found.what == "2 parts are ignored"


def test_what_stops_traffic_comes_first() -> None:
    families = (replace(IPV4, conflicts=(CLAIMED,)), replace(IPV6, healthy=False))
    status = replace(STATUS, families=families, node_eligible=False, source="")
    found = troubles(status)
    assert [trouble.severe for trouble in found] == [True, True, False, False]
    assert "its source" in found[0].advice
    assert found[-1].what == "Node kestrel fails the health check of load balancers"


@pytest.mark.parametrize(
    ("family", "advice"),
    [
        pytest.param(IPV4, "There is no Node of that name", id="a-node-that-leaves"),
        pytest.param(replace(IPV4, last_sync=None), "Its Node is not known yet.", id="a-start"),
    ],
)
def test_why_load_balancers_leave_the_node_out(family: FamilyStatus, advice: str) -> None:
    found = troubles(replace(STATUS, families=(family,), node_eligible=False))
    assert found[-1].what == "Node kestrel fails the health check of load balancers"
    assert found[-1].advice.startswith(advice)
