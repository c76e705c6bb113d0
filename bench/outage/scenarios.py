"""What happens to a cluster under load, one after the other; each has a new cluster and proxy."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from bench.outage.figures import Effort, Seen
from bench.outage.stage import ON_ANOTHER, Stage, staged
from bench.proxies import Proxy

NEW = 1000
"""What is added to the serial number of a pod that is replaced: the same node, a new address."""

OTHER_RULES = {"masqueradeBit": 13}
"""Settings of nftables mode with which all rules that mark packets are others."""

Scenario = Callable[[Stage, Effort], Awaitable[None]]


async def rolling_update(stage: Stage, effort: Effort) -> None:
    """Each pod in turn is replaced. It ends before its slice says so."""
    for old in tuple(stage.endpoints):
        await stage.start_pod(old + NEW)
        stage.publish((*stage.endpoints, old + NEW))
        await asyncio.sleep((effort.step - effort.lag) / 2)
        await stage.end_pod(old)
        await asyncio.sleep(effort.lag)
        stage.publish([each for each in stage.endpoints if each != old])
        await asyncio.sleep((effort.step - effort.lag) / 2)


async def pod_lost(stage: Stage, effort: Effort) -> None:
    """A pod cannot be reached, which its slice says later."""
    stage.lose(stage.endpoints[:1])
    await asyncio.sleep(effort.pod_lost)
    stage.publish(stage.endpoints[1:])
    await asyncio.sleep(effort.after)


async def node_lost(stage: Stage, effort: Effort) -> None:
    """All pods of a node, half of all, cannot be reached; the slice says so much later."""
    stage.lose(ON_ANOTHER)
    await asyncio.sleep(effort.node_lost)
    stage.publish([each for each in stage.endpoints if each not in ON_ANOTHER])
    await asyncio.sleep(effort.after)


async def restarted(stage: Stage, effort: Effort) -> None:
    """The proxy is stopped, and started again."""
    await _restart(stage, effort, signal.SIGTERM)


async def upgraded(stage: Stage, effort: Effort) -> None:
    """The one that is started writes other rules, as another version of it would."""
    await _restart(stage, effort, signal.SIGTERM, OTHER_RULES)


async def killed(stage: Stage, effort: Effort) -> None:
    """The proxy has no time to say goodbye."""
    await _restart(stage, effort, signal.SIGKILL)


async def _restart(
    stage: Stage, effort: Effort, by: signal.Signals, changed: Mapping[str, object] = {}
) -> None:
    await stage.stop_proxy(by)
    await asyncio.sleep(effort.lag)
    stage.start_proxy(changed)
    await asyncio.sleep(effort.after)


async def tables_deleted(stage: Stage, effort: Effort) -> None:
    """Another program deletes the proxy's tables."""
    stage.delete_tables()
    await asyncio.sleep(effort.repair)


SCENARIOS: dict[str, Scenario] = {
    "rolling update": rolling_update,
    "a pod is lost": pod_lost,
    "a node is lost": node_lost,
    "proxy restarted": restarted,
    "proxy upgraded": upgraded,
    "proxy killed": killed,
    "tables deleted": tables_deleted,
}


async def measure(scenario: Scenario, proxy: Proxy, effort: Effort, log: Path) -> dict[str, Seen]:
    """What each client of a proxy meets in a scenario; the proxy's log goes to a file."""
    async with staged(proxy, effort, log) as (stage, clients):
        await asyncio.sleep(effort.before)
        await scenario(stage, effort)
        stage.check_proxy()  # figures of a proxy that has ended are not those of a proxy
        return await clients.seen()
