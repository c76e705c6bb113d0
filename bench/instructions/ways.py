"""The ways that packets can take, by name. Another one is another line of `WAYS`."""

import asyncio
import contextlib
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import msgspec

from bench.clusters import ENDPOINT_PORT, SERVICE_PORT, Size, cluster_ip, endpoint_address
from bench.compiled import THIS_NODE, Compiled
from bench.path import DIALLED, ENDPOINTS, Row, proxying
from bench.proxies import Proxy
from kubeproxy.base.healing import Healing
from kubeproxy.base.inet import Family
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.dataplane.modes import load_mode
from kubeproxy.dataplane.nftables.fastpath import path as fastpath
from kubeproxy.linux.tools import RuleKind
from lab.xtables import programs

PEER = Path("/dev/tmp/peer")
"""Where a guest has another kube-proxy, if it was given one."""


class Served(msgspec.Struct, frozen=True):
    """What a pod dials."""

    port: int
    addresses: list[str]


Way = Callable[[Row, int], AbstractContextManager[Served]]


def _chosen(services: int) -> list[int]:
    """Services all over the cluster, for their position can matter."""
    rng = random.Random(1)  # the same ones in every run
    return [rng.randrange(services) for _ in range(DIALLED)]


@contextlib.contextmanager
def _directly(_row: Row, services: int) -> Iterator[Served]:
    """Endpoints themselves, through a node without rules."""
    serials = [index * ENDPOINTS for index in _chosen(services)]
    yield Served(ENDPOINT_PORT, [endpoint_address(serial) for serial in serials])


@contextlib.contextmanager
def _by_mode(
    mode: str, row: Row, services: int, healing: Healing = Healing.NONE, affinity: int = 0
) -> Iterator[Served]:
    """Services, programmed by the dataplane of a mode, as the daemon opens it.

    With session affinity, of so many seconds, all packets but the first are of a known client.
    """
    node = msgspec.structs.replace(THIS_NODE, healing=healing)
    compiled = Compiled(Size(services, ENDPOINTS), node=node)
    table = compiled.builder.table
    for entry in [*table.entries.values()] if affinity else ():
        table.put(msgspec.structs.replace(entry, affinity_seconds=affinity))

    async def program() -> None:
        dataplane = load_mode(mode).open(KubeProxyConfiguration(mode=mode))(Family.IPV4)
        report = await dataplane.apply(compiled.everything())
        assert not report.failed, report.failed
        await dataplane.close()

    with tempfile.TemporaryDirectory() as place, programs(RuleKind.LEGACY, Path(place, "bin")):
        with row.node.entered():
            asyncio.run(program())
        yield _services(services)


@contextlib.contextmanager
def _with_fast_path(row: Row, services: int) -> Iterator[Served]:
    """Services of nftables mode, and the fast path, which both devices of the node take."""
    with _by_mode("nftables", row, services) as served:
        with row.node.entered():
            taken = fastpath.bring(fastpath.Settings(enabled=True))
        assert set(taken.devices) == {"pod", "eth0"}, taken
        yield served


@contextlib.contextmanager
def _by_peer(mode: str, row: Row, services: int) -> Iterator[Served]:
    """Services, programmed by another kube-proxy, which runs for as long as this lasts."""
    served = _services(services)
    proxy = Proxy("peer", str(PEER), mode)
    with (
        tempfile.TemporaryDirectory() as place,
        programs(RuleKind.LEGACY, Path(place, "bin")),
        proxying(proxy, row, Size(services, ENDPOINTS), served.addresses),
    ):
        yield served


def _services(services: int) -> Served:
    return Served(SERVICE_PORT, [cluster_ip(index) for index in _chosen(services)])


WAYS: Mapping[str, Way] = {
    "no proxy": _directly,
    "nftables": partial(_by_mode, "nftables"),
    "nftables with fast path": _with_fast_path,
    "nftables with healing": partial(_by_mode, "nftables", healing=Healing.ALL),
    "nftables with affinity": partial(_by_mode, "nftables", affinity=3 * 3600),
    "iptables": partial(_by_mode, "iptables"),
    "ipvs": partial(_by_mode, "ipvs"),
    "peer nftables": partial(_by_peer, "nftables"),
    "peer iptables": partial(_by_peer, "iptables"),
}
