"""The dataplane with programs that are none: what is written when, and what after a failure."""

import asyncio

import msgspec
import pytest

from dataplane.iptables.clusters import kestrel, table
from fakes.xtables import FakeXtables
from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.contract import Update
from kubeproxy.dataplane.iptables import apply as module
from kubeproxy.dataplane.iptables.apply import Iptables, IptablesSettings
from kubeproxy.dataplane.iptables.metrics import PARTIAL_RESTORE_FAILURES
from kubeproxy.dataplane.iptables.names import CANARY, is_service_chain
from kubeproxy.dataplane.iptables.render import JUMPS
from kubeproxy.dataplane.xtables_text import RESTORE_FAILURES
from kubeproxy.table.diff import NO_CHANGES, Changes, diff, patch
from kubeproxy.table.entries import Table
from kubeproxy.table.node import NodeView
from waiting import until
from world import prefix


class Kernel:
    """What is read and written beside the tables."""

    def __init__(self) -> None:
        self.refused: dict[str, str] = {}
        self.sysctls: dict[str, int] = {}
        self.broken = False

    def ensure_counters(self, _names: tuple[str, ...]) -> dict[str, str]:
        if self.broken:
            raise KernelError("no netfilter")
        return self.refused

    def read_sysctl(self, name: str) -> int | None:
        return self.sysctls.get(name)

    def ensure_sysctl(self, name: str, value: int) -> bool:
        if self.broken:
            raise KernelError("read-only")
        changed = self.sysctls.get(name) != value
        self.sysctls[name] = value
        return changed


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    kernel = Kernel()
    for name in ("ensure_counters", "read_sysctl", "ensure_sysctl"):
        monkeypatch.setattr(module, name, getattr(kernel, name))
    return kernel


class Plane:
    """A dataplane that gets what changes."""

    def __init__(self, node: NodeView | None = None) -> None:
        self.programs = FakeXtables()
        self.node = node or kestrel()
        self.table = Table(self.node.family)
        self.dataplane = Iptables(IptablesSettings(monitor_period=0.001), self.programs)

    async def put(self, name: str, *, full: bool = False) -> str:
        changes = diff(self.table, table(name, self.node.family))
        patch(self.table, changes)
        return await self.apply(changes, full=full)

    async def apply(self, changes: Changes = NO_CHANGES, *, full: bool = False) -> str:
        """What was restored, "" when there was no need to."""
        before = len(self.programs.restored)
        report = await self.dataplane.apply(Update(self.table, self.node, changes, full))
        text = "".join(self.programs.restored[before:])
        assert report.written == text.count("\n")
        return text


def chains_of(text: str) -> list[str]:
    heads = (line[1:].split()[0] for line in text.splitlines() if line.startswith(":"))
    return [head for head in heads if head.startswith(("KUBE-SVC-", "KUBE-SEP-"))]


def deleted(text: str) -> list[str]:
    return [line[3:] for line in text.splitlines() if line.startswith("-X ")]


def service_chains_in(programs: FakeXtables) -> set[str]:
    return {chain for _, chain in programs.chains if is_service_chain(chain)}


async def test_the_first_sync_makes_the_jumps_and_writes_everything(kernel: Kernel) -> None:
    plane = Plane()
    text = await plane.put("cluster-ip", full=True)
    assert [(t, c, w) for t, c, w in plane.programs.rules] == [
        (jump.table, jump.chain, jump.words) for jump in JUMPS
    ]
    assert {(jump.table, jump.target) for jump in JUMPS} <= plane.programs.chains
    assert chains_of(text)
    assert kernel.sysctls == {"net.ipv4.conf.all.route_localnet": 1}


@pytest.mark.usefixtures("kernel")
async def test_a_partial_sync_writes_chains_of_what_changed_only() -> None:
    plane = Plane()
    everything = chains_of(await plane.put("cluster-ip", full=True))
    assert await plane.apply() == ""
    text = await plane.put("nothing")
    assert sorted(everything) == sorted(set(chains_of(text)))
    assert text.count("-X KUBE-") == len(everything)
    assert not service_chains_in(plane.programs)


@pytest.mark.usefixtures("kernel")
async def test_after_a_failure_everything_is_written_again() -> None:
    plane = Plane()
    before = chains_of(await plane.put("cluster-ip", full=True))
    plane.programs.broken = "exit code 4"
    with pytest.raises(KernelError, match="exit code 4"):
        await plane.put("affinity")
    plane.programs.broken = ""
    plane.programs.rules.clear()
    after = await plane.apply()
    assert len(plane.programs.rules) == len(JUMPS)
    assert set(deleted(after)) == set(before)
    assert service_chains_in(plane.programs) == set(chains_of(after)) - set(deleted(after))


@pytest.mark.usefixtures("kernel")
async def test_another_detector_means_other_rules_for_all() -> None:
    plane = Plane()
    first = await plane.put("cluster-ip", full=True)
    plane.node = msgspec.structs.replace(plane.node, detector=None)
    assert chains_of(await plane.apply()) == chains_of(first)


@pytest.mark.usefixtures("kernel")
async def test_another_address_is_written_where_rules_name_it_and_only_there() -> None:
    plane = Plane()
    await plane.put("cluster-ip", full=True)
    plane.node = msgspec.structs.replace(plane.node, addresses=("198.51.100.10",))
    assert await plane.apply() == ""
    ranges = (prefix("198.51.100.0/24"),)
    plane.node = msgspec.structs.replace(plane.node, node_port_ranges=ranges)
    assert "-d 198.51.100.10 -j KUBE-NODEPORTS" in await plane.apply()
    plane.node = msgspec.structs.replace(plane.node, addresses=("198.51.100.77",))
    text = await plane.apply()
    assert "-d 198.51.100.77 -j KUBE-NODEPORTS" in text
    assert chains_of(text) == []


@pytest.mark.usefixtures("kernel")
async def test_when_chains_cannot_be_listed_the_sync_goes_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plane = Plane()
    plane.programs.no_save = True
    plane.programs.chains.add(("nat", "KUBE-SVC-OLD"))
    assert deleted(await plane.put("cluster-ip", full=True)) == []
    assert "Could not list stale chains" in capsys.readouterr().err
    plane.programs.no_save = False
    assert deleted(await plane.apply(full=True)) == ["KUBE-SVC-OLD"]


async def test_a_kernel_without_counters_gets_rules_without(kernel: Kernel) -> None:
    kernel.refused = {"ct_state_invalid_dropped_pkts": "no such module"}
    text = await Plane().put("node-port", full=True)
    assert "ct_state_invalid_dropped_pkts" not in text
    assert "localhost_nps_accepted_pkts" in text


async def test_a_kernel_that_refuses_is_served_as_well_as_can_be(
    kernel: Kernel, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel.broken = True
    plane = Plane()
    assert "nfacct" not in await plane.put("node-port", full=True)
    assert "Node ports cannot be served on 127.0.0.1" in capsys.readouterr().err
    kernel.broken = False
    await plane.apply()
    assert kernel.sysctls == {"net.ipv4.conf.all.route_localnet": 1}


async def test_a_sysctl_that_is_set_already_is_not_mentioned(
    kernel: Kernel, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel.sysctls["net.ipv4.conf.all.route_localnet"] = 1
    await Plane().put("node-port", full=True)
    assert "127.0.0.1" not in capsys.readouterr().err


async def test_whether_invalid_packets_are_dropped_is_decided_once(kernel: Kernel) -> None:
    kernel.sysctls["net.netfilter.nf_conntrack_tcp_be_liberal"] = 1
    plane = Plane(kestrel(Family.IPV6))
    assert "INVALID" not in await plane.put("cluster-ip", full=True)
    kernel.sysctls.clear()
    assert "INVALID" not in await plane.apply(full=True)
    assert not kernel.sysctls, "route_localnet is for IPv4 alone"
    await plane.dataplane.close()


async def test_a_flush_is_noticed() -> None:
    plane = Plane()
    lost: list[int] = []
    watching = asyncio.ensure_future(plane.dataplane.watch(lambda _: lost.append(1)))
    await until(lambda: ("filter", CANARY) in plane.programs.chains)
    plane.programs.chains.clear()
    await until(lambda: bool(lost))
    watching.cancel()


@pytest.mark.usefixtures("kernel")
async def test_rules_are_counted_table_by_table() -> None:
    plane = Plane()
    await plane.put("cluster-ip", full=True)
    update = Update(plane.table, plane.node, NO_CHANGES, full=True)
    everything = (await plane.dataplane.apply(update)).rules
    text = plane.programs.restored[-1]
    assert sum(rules.written for rules in everything.values()) == text.count("\n-A ")
    assert all(rules.owned == rules.written for rules in everything.values())
    changes = diff(plane.table, table("nothing", plane.node.family))
    patch(plane.table, changes)
    nothing = (
        await plane.dataplane.apply(Update(plane.table, plane.node, changes, full=False))
    ).rules
    assert nothing["nat"].owned == nothing["nat"].written < everything["nat"].owned
    assert (
        await plane.dataplane.apply(Update(plane.table, plane.node, NO_CHANGES, full=False))
    ).rules == {}


@pytest.mark.usefixtures("kernel")
async def test_rules_that_a_partial_sync_left_alone_are_ours_too() -> None:
    plane = Plane()
    await plane.put("cluster-ip", full=True)
    before = next(e for e in plane.table.entries.values() if len(e.cluster) > 1)
    after = msgspec.structs.replace(before, cluster=before.cluster[:1])
    changes = Changes(changed=((before, after),))
    patch(plane.table, changes)
    partial = await plane.dataplane.apply(Update(plane.table, plane.node, changes, full=False))
    full = await plane.dataplane.apply(Update(plane.table, plane.node, NO_CHANGES, full=True))
    assert {name: rules.owned for name, rules in partial.rules.items()} == {
        name: rules.owned for name, rules in full.rules.items()
    }


@pytest.mark.usefixtures("kernel")
async def test_failed_restores_are_counted() -> None:
    plane = Plane()
    assert plane.dataplane.figures() == {
        RESTORE_FAILURES.name: 0,
        PARTIAL_RESTORE_FAILURES.name: 0,
    }
    await plane.put("cluster-ip", full=True)
    plane.programs.broken = "no"
    with pytest.raises(KernelError):
        await plane.put("nothing")
    with pytest.raises(KernelError):
        await plane.apply(full=True)
    assert plane.dataplane.figures()[PARTIAL_RESTORE_FAILURES.name] == 1
