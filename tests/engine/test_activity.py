"""What is logged of what the proxy does, and from which verbosity on."""

import re
from collections.abc import Iterator

import pytest

from kubeproxy.base import klog
from kubeproxy.base.inet import Family
from kubeproxy.cluster.objects.meta import Kind, ObjectKey
from kubeproxy.dataplane.contract import SyncReport
from kubeproxy.engine.activity import log_activity
from kubeproxy.engine.observer import (
    FlowsCleaned,
    LoopStarted,
    ObjectReceived,
    Observation,
    SyncEnded,
    SyncStarted,
)
from kubeproxy.engine.schedule import Outcome
from kubeproxy.table.diff import Changes
from world import endpoint_slice, service, table_of

(ENTRY,) = table_of(service(), endpoint_slice("L1")).entries.values()
SLICE = ObjectKey("shop", "cart-1")
PORT = (
    'ipFamily="IPv4" servicePort="shop/cart:http" protocol="TCP"'
    ' frontends=["10.112.0.21:80"] endpoints=1'
)


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    yield
    klog.configure(klog.LogSettings())


@pytest.mark.parametrize(
    ("observation", "level", "expected"),
    [
        pytest.param(
            ObjectReceived(Kind.ENDPOINT_SLICE, SLICE, (Family.IPV4,)),
            5,
            ['"Object received" kind="EndpointSlice" object="shop/cart-1" ipFamilies=["IPv4"]'],
            id="an-object",
        ),
        pytest.param(
            ObjectReceived(Kind.ENDPOINT_SLICE, SLICE, (), gone=True),
            5,
            ['"Object is gone" kind="EndpointSlice" object="shop/cart-1" ipFamilies=[]'],
            id="an-object-that-is-gone",
        ),
        pytest.param(
            SyncStarted(Family.IPV6), 4, ['"Sync started" ipFamily="IPv6"'], id="a-sync-starts"
        ),
        pytest.param(
            SyncEnded(
                Family.IPV4,
                Outcome.OK,
                False,
                0.0025,
                Changes(added=(ENTRY,), changed=((ENTRY, ENTRY),), removed=(ENTRY,)),
                SyncReport(written=7),
            ),
            4,
            [
                f'"Adding service port" {PORT}',
                f'"Changing service port" {PORT}',
                f'"Removing service port" {PORT}',
                '"Sync ended" ipFamily="IPv4" outcome="ok" full=false seconds=0.0025 written=7',
            ],
            id="a-sync-with-what-it-changed",
        ),
        pytest.param(
            SyncEnded(Family.IPV4, Outcome.FAILED, True, 1.0, Changes(), None),
            4,
            ['"Sync ended" ipFamily="IPv4" outcome="failed" full=true seconds=1 written=0'],
            id="a-sync-that-failed",
        ),
        pytest.param(
            FlowsCleaned(Family.IPV4, 0.5, 3),
            4,
            ['"Looked for stale UDP flows" ipFamily="IPv4" seconds=0.5 deleted=3'],
            id="stale-flows",
        ),
        pytest.param(LoopStarted(Family.IPV4), 9, [], id="nothing-to-say"),
    ],
)
def test_from_which_verbosity_on_it_is_logged(
    capsys: pytest.CaptureFixture[str], observation: Observation, level: int, expected: list[str]
) -> None:
    klog.set_verbosity(level - 1)
    log_activity(observation)
    assert capsys.readouterr().err == ""
    klog.set_verbosity(level)
    log_activity(observation)
    assert expected == re.findall(r"^I[^]]+\] (.*)$", capsys.readouterr().err, re.MULTILINE)
