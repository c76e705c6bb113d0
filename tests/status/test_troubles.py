"""What is wrong with a daemon, in which order, and with advice."""

import msgspec
import pytest

from kubeproxy.status.troubles import PATIENCE, troubles
from kubeproxy.status.wire import FamilyStatus, Status
from status.web.samples import CLAIMED, IPV4, IPV6, REFUSED, STATUS, SYNC

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
    ],
)
def test_of_a_family(family: FamilyStatus, what: str, severe: bool) -> None:
    [found] = troubles(replace(STATUS, families=(family,)))
    assert found.what.startswith(what)
    assert found.severe == severe
    assert found.advice


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(STATUS, id="well"),
        pytest.param(
            replace(STATUS, families=(replace(IPV4, waiting_seconds=PATIENCE),)), id="waits-little"
        ),
    ],
)
def test_nothing_is_wrong(status: Status) -> None:
    assert troubles(status) == []


def test_cases_are_named_with_their_reasons() -> None:
    family = replace(IPV4, not_programmed=(REFUSED,), conflicts=(CLAIMED,))
    refused, claimed = troubles(replace(STATUS, families=(family,)))
    assert refused.cases == (("shop/web:http TCP", "the kernel says: no space left"),)
    assert claimed.cases == (("*:31080/TCP", "served by shop/web:http, and not by mall/web:http"),)


def test_what_stops_traffic_comes_first() -> None:
    families = (replace(IPV4, conflicts=(CLAIMED,)), replace(IPV6, healthy=False))
    status = replace(STATUS, families=families, node_eligible=False, source="")
    found = troubles(status)
    assert [trouble.severe for trouble in found] == [True, True, False, False]
    assert "its source" in found[0].advice
    assert found[-1].what == "Load balancers are told to leave out node kestrel"
