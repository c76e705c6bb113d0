"""The scenarios of `make bench-outage`, cut short: clients meet what each of them is about."""

import sys
from pathlib import Path

import msgspec
import pytest
from bench.outage.__main__ import variants
from bench.outage.figures import Effort, Failure
from bench.outage.scenarios import (
    Scenario,
    measure,
    pod_lost,
    restarted,
    rolling_update,
    tables_deleted,
    upgraded,
)

OURS, HEALING = variants(str(Path(sys.executable).with_name("kube-proxy")), "")
SHORT = Effort(
    rate=50,
    kept=40,  # each pod has some
    timeout=2.5,
    before=0.2,
    step=1.0,
    lag=0.5,
    pod_lost=1.0,
    after=2.0,
    repair=2.0,
)

pytestmark = pytest.mark.usefixtures("_own_namespaces")


async def test_pods_that_end_too_soon_refuse_connections(tmp_path: Path) -> None:
    for client, seen in (await measure(rolling_update, OURS, SHORT, tmp_path / "log")).items():
        assert set(seen.failed) <= {Failure.REFUSED, Failure.RESET}, client
        assert 0 < seen.failed[Failure.REFUSED] < seen.connects / 2, client
        assert seen.broken >= SHORT.kept, client
        assert seen.unanswered == 0, client


async def test_a_lost_pod_says_nothing(tmp_path: Path) -> None:
    for client, seen in (await measure(pod_lost, OURS, SHORT, tmp_path / "log")).items():
        assert set(seen.failed) == {Failure.TIMED_OUT}, client
        assert 0 < seen.failed[Failure.TIMED_OUT] < seen.connects / 2, client
        assert seen.broken == 0, client
        assert 0 < seen.unanswered < SHORT.kept, client


PATIENT = msgspec.structs.replace(SHORT, timeout=8.0)
"""A connection may be retried twice: after one second, and two more."""


async def test_with_healing_pods_that_end_too_soon_refuse_nobody(tmp_path: Path) -> None:
    seen = await measure(rolling_update, HEALING, PATIENT, tmp_path / "log")
    for client, each in seen.items():
        # A pod that has accepted a connection may end before it answers.
        assert set(each.failed) <= {Failure.RESET}, client
        assert each.slow, client


async def test_with_healing_a_lost_pod_is_replaced_by_another_one(tmp_path: Path) -> None:
    for client, seen in (await measure(pod_lost, HEALING, PATIENT, tmp_path / "log")).items():
        assert seen.failed == {}, client
        assert seen.slow, client
        assert seen.broken > 0, client
        assert seen.unanswered == 0, client


@pytest.mark.parametrize("scenario", [restarted, upgraded, tables_deleted])
async def test_the_proxy_is_back_when_the_load_ends(scenario: Scenario, tmp_path: Path) -> None:
    for client, seen in (await measure(scenario, OURS, SHORT, tmp_path / "log")).items():
        assert seen.unanswered == 0, client
        assert sum(seen.failed.values()) < seen.connects / 2, client
