"""Ten minutes of pods that fail at random: `python -m bench.soak`.

Both families. Each pod lives on its own: it refuses for a while, or vanishes, comes back or is
replaced in the slices; at most half of them are in trouble at once. The seed is fixed. A line
every half a minute says how full the sets of healing are, how many connections the kernel tracks,
and how much memory the proxy has; the last lines are without load, so that what leaks is left.
"""

import argparse
import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.clusters import Document, node_document, service_cidr_document
from bench.filled import elements
from bench.machine import ROOT, this_code, this_machine
from bench.namespaces import enter, is_privileged
from bench.outage.figures import Effort, Seen, failed, figures
from bench.outage.network import NODE_ADDRESS_6
from bench.outage.stage import SERVICE_6, Clients, Stage, opened, service
from bench.proxies import Proxy
from kubeproxy.base.inet import Family

PODS = range(1, 9)
MOST_IN_TROUBLE = 4
EVERY = 30.0
AFTER = 90.0
"""Seconds without load in the end."""
SETTINGS: dict[str, object] = {"clusterCIDR": "10.128.0.0/9,fd00:1::/32"}
HEALING: dict[str, object] = {"healing": {"parts": "all", "goneTimeout": "60s"}}
EFFORT = Effort(rate=40, kept=10)
_RATHER_OFTEN, _LONG, _GONE = (0.5, 4.0), (1.0, 8.0), (1.0, 15.0)
"""Between how many seconds and how many a pod is well, in trouble, and not there."""


def dual_stack() -> tuple[Document, ...]:
    """The node, the ranges and the service, with addresses of both families."""
    node, ranges, served = node_document(), service_cidr_document(), service()
    status, spec, served_spec = node["status"], ranges["spec"], served["spec"]
    assert isinstance(status, dict)
    assert isinstance(spec, dict)
    assert isinstance(served_spec, dict)
    status["addresses"].append({"type": "InternalIP", "address": NODE_ADDRESS_6})
    spec["cidrs"].append("fd12::/108")
    served_spec["clusterIPs"].append(SERVICE_6)
    served_spec |= {"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"}
    return node, ranges, served


class Soak:
    """The pods and what becomes of them."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self._stage = stage
        self._seed = seed
        self._room = asyncio.Semaphore(MOST_IN_TROUBLE)
        self._listed = set(PODS)
        self.events = 0

    async def run(self) -> None:
        """All pods, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for serial in PODS:
                tasks.create_task(self._live(serial, random.Random(f"{self._seed}-{serial}")))

    async def _live(self, serial: int, rng: random.Random) -> None:
        stage = self._stage
        while True:
            await asyncio.sleep(rng.uniform(*_RATHER_OFTEN) * 4)
            async with self._room:
                refuses, is_replaced = rng.random() < 0.5, rng.random() < 0.5
                self.events += 1
                if refuses:
                    await stage.end_pod(serial)
                else:
                    stage.lose([serial])
                await asyncio.sleep(rng.uniform(*_LONG))
                if is_replaced:
                    self._list(self._listed - {serial})
                    await asyncio.sleep(rng.uniform(*_GONE))
                if refuses:
                    await stage.start_pod(serial)
                else:
                    stage.find([serial])
                if is_replaced:
                    self._list(self._listed | {serial})

    def _list(self, serials: set[int]) -> None:
        self._listed = serials
        self._stage.publish(sorted(serials))


def line(second: float, stage: Stage, events: int) -> str:
    """How things are."""
    found = elements(stage.node, Family.IPV4, Family.IPV6)
    names = sorted({name.partition(" ")[2] for name in found if name.startswith("ip")})
    shown = ", ".join(f"{name} {found[f'ip {name}']}+{found[f'ip6 {name}']}" for name in names)
    memory = stage.running.memory().resident
    tracked = found[next(name for name in found if not name.startswith("ip"))]
    return (
        f"{second:5.0f} s  {events:5} events  load {os.getloadavg()[0]:.1f}  {memory:.1f} MB  "
        f"{stage.running.cpu():.1f} s of CPU  {tracked} tracked  {shown}"
    )


async def soak(proxy: Proxy, seconds: float, seed: int, log: Path) -> dict[str, Seen]:
    """The whole of it; what clients met."""
    async with opened(proxy, log, dual_stack(), PODS, is_dual=True) as stage:
        clients = Clients(stage.network, EFFORT, is_dual=True)
        try:
            await clients.ready()
            pods = Soak(stage, seed)
            living = asyncio.create_task(pods.run())
            await _watch(stage, pods, 0.0, seconds)
            living.cancel()
            stage.check_proxy()
            seen = await clients.seen()
        finally:
            clients.kill()
        await _watch(stage, pods, seconds, seconds + AFTER)
        return seen


async def _watch(stage: Stage, pods: Soak, begin: float, end: float) -> None:
    began = time.monotonic() - begin
    due = begin + EVERY
    while due <= end:
        await asyncio.sleep(began + due - time.monotonic())
        print(await asyncio.to_thread(line, due, stage, pods.events), flush=True)
        due += EVERY


def report(seen: dict[str, Seen]) -> Sequence[str]:
    """What clients met, a line each."""
    lines = []
    for client, each in seen.items():
        found = figures(each)
        kinds = ", ".join(f"{count} {kind.value}" for kind, count in each.failed.items())
        lines.append(
            f"{client}: {failed(found):.0f} of {each.connects:,} failed ({kinds or 'none'}), "
            f"{len(each.slow):,} late, {found['soon']:,.0f} of them within 1.5 s, the longest "
            f"{found['slowest']:.1f} s; {len(each.gaps)} stalls of kept ones, the longest "
            f"{found['longest']:.1f} s, {each.unanswered} at the end"
        )
    return lines


def main() -> None:
    """Soak, and print."""
    parser = argparse.ArgumentParser("python -m bench.soak", description=__doc__)
    add = parser.add_argument
    add("--ours", default=str(ROOT / ".venv/bin/kube-proxy"), help="the kube-proxy to soak")
    add("--minutes", type=float, default=10.0, help="(%(default)s)")
    add("--seed", type=int, default=1, help="(%(default)s)")
    add("--log", type=Path, default=ROOT / "bench/results/soak.log", help="the proxy's")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # what we began ends
    enter()
    asked.log.parent.mkdir(parents=True, exist_ok=True)
    machine, code = this_machine(privileged=is_privileged()), this_code()
    print(f"{machine.cores} cores of {machine.processor}, Linux {machine.kernel}")
    print(f"commit {code.commit}, seed {asked.seed}; elements: IPv4 + IPv6", flush=True)
    proxy = Proxy("healing", asked.ours, settings=SETTINGS, section=HEALING)
    seen = asyncio.run(soak(proxy, 60 * asked.minutes, asked.seed, asked.log))
    print("\n".join(report(seen)))


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, OSError) as error:
        sys.exit(str(error))
