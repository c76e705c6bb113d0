"""How an IP family is, in a word."""

import msgspec
import pytest

from kubeproxy.serve.status.web.familycard import family_health
from kubeproxy.serve.status.wire import FamilyStatus
from serve.status.web.samples import IPV4, IPV6, REFUSED, SYNC

replace = msgspec.structs.replace


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        pytest.param(IPV4, ("programmed", "good"), id="well"),
        pytest.param(IPV6, ("waiting for the cluster", "warn"), id="not-yet"),
        pytest.param(replace(IPV4, healthy=False), ("not healthy", "bad"), id="behind"),
        pytest.param(
            replace(IPV4, not_programmed=(REFUSED,)), ("partly programmed", "warn"), id="refused"
        ),
        pytest.param(
            replace(IPV4, last_sync=replace(SYNC, outcome="partly")),
            ("partly programmed", "warn"),
            id="partly",
        ),
        pytest.param(
            replace(IPV4, last_sync=replace(SYNC, outcome="failed")),
            ("sync failed", "bad"),
            id="failed",
        ),
        pytest.param(
            replace(IPV4, last_sync=replace(SYNC, outcome="new")), ("new", "warn"), id="unknown"
        ),
    ],
)
def test_the_health_of_a_family(family: FamilyStatus, expected: tuple[str, str]) -> None:
    assert expected == family_health(family)
