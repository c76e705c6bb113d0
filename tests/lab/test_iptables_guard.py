"""Who changed our chains, with programs that write nftables: what the kernel reports.

The chains of ipvs mode are looked after in the same way, on kernels that have no ipvs too.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from dataplane.iptables.clusters import kestrel, table
from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.base.writer import Writer
from kubeproxy.dataplane import xtables_guard
from kubeproxy.dataplane.contract import Update
from kubeproxy.dataplane.iptables import apply
from kubeproxy.dataplane.ipvs.apply import IpvsDataplane
from kubeproxy.dataplane.ipvs.settings import IpvsSettings
from kubeproxy.dataplane.xtables_guard import ChainGuard
from kubeproxy.linux.ipvs import Ipvs
from kubeproxy.linux.netlink.message import Message
from kubeproxy.linux.nfnetlink import Nfnetlink, NftablesChanges
from kubeproxy.linux.tools import RuleKind
from kubeproxy.linux.xtables import Xtables
from kubeproxy.table.diff import NO_CHANGES
from lab.namespaces import Namespace
from lab.xtables import programs
from waiting import until

TEXT = """\
*filter
:KUBE-FORWARD - [0:0]
-A KUBE-FORWARD -j RETURN
COMMIT
*nat
:KUBE-SERVICES - [0:0]
:KUBE-LOAD-BALANCER - [0:0]
:KUBE-MARK-MASQ - [0:0]
-A KUBE-SERVICES -j KUBE-LOAD-BALANCER
-A KUBE-LOAD-BALANCER -j RETURN
COMMIT
"""


@pytest.fixture
def namespace(_own_namespaces: None, tmp_path: Path) -> Iterator[Namespace]:
    made = Namespace("guard")
    with made.entered(), programs(RuleKind.NFT, tmp_path / "bin"):
        yield made
    made.close()


class Guarded:
    """The chains of one family under guard, and a note of each time that others changed them."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        self.programs = Xtables(Family.IPV4)
        self.guard = ChainGuard(self.programs)
        self.reports = 0
        self.writer: Writer | None = None

    async def follow(self) -> None:
        await self.guard.follow(self._lost, 0.01)

    def _lost(self, writer: Writer | None) -> None:
        self.reports += 1
        self.writer = writer

    async def restore(self) -> None:
        await asyncio.to_thread(self.programs.restore, TEXT)

    async def wait_all_heard(self) -> None:
        """A transaction is reported before its number is."""
        with Nfnetlink() as kernel:
            await until(lambda: self.guard._seen == kernel.generation())

    async def others(self, words: str, program: str = "iptables") -> None:
        """Another process runs the program."""
        await asyncio.to_thread(self.namespace.run, [program, *words.split()])


@pytest.fixture
async def guarded(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Guarded]:
    monkeypatch.setattr(xtables_guard, "_CALM", 0.0)
    opened = Guarded(namespace)
    await opened.restore()
    following = asyncio.create_task(opened.follow())
    await until(lambda: opened.guard._watch is not None)
    yield opened
    following.cancel()
    await asyncio.wait([following])


@pytest.mark.parametrize(
    "words",
    [
        "-t nat -F KUBE-SERVICES",
        "-t nat -D KUBE-LOAD-BALANCER -j RETURN",
        "-t filter -A KUBE-FORWARD -j DROP",
        "-t nat -X KUBE-MARK-MASQ",
    ],
)
async def test_changes_of_others_to_our_chains_are_reported(guarded: Guarded, words: str) -> None:
    await guarded.others(words)
    await until(lambda: guarded.reports == 1)


async def test_our_changes_and_changes_elsewhere_are_not_reported(guarded: Guarded) -> None:
    for _ in range(3):
        await guarded.restore()
    await asyncio.to_thread(guarded.programs.ensure_rule, "nat", "OUTPUT", ["-j", "KUBE-SERVICES"])
    await guarded.others("-t nat -N THEIRS")
    await guarded.others("-t nat -I PREROUTING -j KUBE-SERVICES")
    await guarded.others("-t nat -N KUBE-SERVICES", "ip6tables")
    await guarded.others("-t nat -A KUBE-SERVICES -j RETURN", "ip6tables")
    await guarded.wait_all_heard()
    assert guarded.reports == 0


async def test_a_jump_to_a_removed_chain_of_ours_is_reported(guarded: Guarded) -> None:
    await asyncio.to_thread(guarded.programs.ensure_rule, "nat", "OUTPUT", ["-j", "KUBE-SERVICES"])
    await guarded.others("-t nat -F OUTPUT")
    await until(lambda: guarded.reports == 1)


@pytest.mark.parametrize("is_disturbed", [False, True])
async def test_changes_of_others_are_noticed_without_a_watch(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch, *, is_disturbed: bool
) -> None:
    restore = guarded.programs.restore

    def restore_and_disturb(text: str) -> None:
        restore(text)
        if is_disturbed:
            guarded.namespace.run(["iptables", "-t", "nat", "-F", "KUBE-SERVICES"])

    monkeypatch.setattr(guarded.programs, "restore", restore_and_disturb)
    monkeypatch.setattr(xtables_guard, "_ROOM_OF_A_BYTE", 1 << 30)
    await guarded.wait_all_heard()
    assert await asyncio.to_thread(guarded.guard.restore, TEXT) is is_disturbed
    await guarded.others("-t nat -N THEIRS")  # what is received from then on counts again
    await guarded.wait_all_heard()
    assert guarded.reports == 0
    await guarded.others("-t filter -F KUBE-FORWARD")
    await until(lambda: guarded.reports == 1)


async def test_after_a_failure_to_listen_anything_may_have_happened(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refusals = [KernelError("no more memory")]

    class Failing(NftablesChanges):
        async def follow(self, notify: Callable[[Message | None], None]) -> None:
            if refusals:
                raise refusals.pop()
            await super().follow(notify)

    monkeypatch.setattr(xtables_guard, "NftablesChanges", Failing)
    opened = Guarded(namespace)
    following = asyncio.create_task(opened.follow())
    await until(lambda: opened.reports == 1)
    assert "Cannot watch for changes of the rules by others" in capsys.readouterr().err
    following.cancel()
    await asyncio.wait([following])


@pytest.mark.parametrize(
    ("words", "is_ours"),
    [
        pytest.param("-t filter -F KUBE-FORWARD", True, id="our-chain"),
        pytest.param("-t filter -D OUTPUT -j KUBE-FIREWALL", True, id="a-jump-to-ours"),
        pytest.param("-t filter -N THEIRS", False, id="a-chain-of-their-own"),
    ],
)
async def test_a_large_restore_that_others_disturb_is_made_again(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch, words: str, *, is_ours: bool
) -> None:
    """The programs write one table after the other: others may come in between."""
    monkeypatch.setattr(xtables_guard, "_ROOM_OF_A_BYTE", 1 << 30)
    tables = Xtables(Family.IPV4)
    restore = tables.restore

    def restore_disturbed(text: str) -> None:
        restore(text)
        namespace.run(["iptables", *words.split()])

    dataplane = apply.Iptables(apply.IptablesSettings(), tables)
    watching = asyncio.create_task(dataplane.watch(lambda _: None))
    await until(lambda: dataplane._guard._watch is not None)
    update = Update(table("cluster-ip", Family.IPV4), kestrel(), NO_CHANGES, full=True)
    monkeypatch.setattr(tables, "restore", restore_disturbed)
    if is_ours:
        with pytest.raises(KernelError, match="others changed the rules while ours were"):
            await dataplane.apply(update)
    else:
        assert (await dataplane.apply(update)).written
    monkeypatch.setattr(tables, "restore", restore)
    assert (await dataplane.apply(update)).written
    watching.cancel()
    await asyncio.wait([watching])


async def test_notifications_of_a_full_write_fit_into_the_buffer(
    namespace: Namespace, tmp_path: Path
) -> None:
    """Though nothing is read before all is written; the rules are as long as ours."""
    with NftablesChanges() as watch:
        # Without privileges the program itself can write no more than that.
        watch._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 17)
        room = watch.receive_buffer
        lines: list[str] = []
        size = 0
        while size * xtables_guard._ROOM_OF_A_BYTE <= room:
            number = len(lines)
            line = f'-A KUBE-SERVICES -m comment --comment "x/s{number} cluster IP" -m tcp -p tcp'
            line += f" -d 10.96.{number >> 8 & 255}.{number & 255} --dport 80 -j KUBE-MARK-MASQ"
            lines.append(line)
            size += len(line) + 1
        head = "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n"
        text = tmp_path / "text"
        text.write_text("\n".join([head, *lines, "COMMIT", ""]))
        for _ in range(2):
            namespace.run(["sh", "-c", f"iptables-restore --noflush < {text}"])
            assert None not in list(watch.received())


async def test_changes_are_reported_in_ipvs_mode_too(namespace: Namespace) -> None:
    """Its rules are of the same kind; that needs no kernel with ipvs."""
    reported = asyncio.Event()
    tables = Xtables(Family.IPV4)
    await asyncio.to_thread(tables.restore, TEXT)
    dataplane = IpvsDataplane(IpvsSettings(), Ipvs(), tables)
    watching = asyncio.create_task(dataplane.watch(lambda _: reported.set()))
    await until(lambda: dataplane._guard._watch is not None)
    await asyncio.to_thread(tables.restore, TEXT)
    with Nfnetlink() as kernel:
        await until(lambda: dataplane._guard._seen == kernel.generation())
    assert not reported.is_set()
    words = ["iptables", "-t", "nat", "-F", "KUBE-LOAD-BALANCER"]
    await asyncio.to_thread(namespace.run, words)
    await asyncio.wait_for(reported.wait(), 10)
    watching.cancel()
    await asyncio.wait([watching])
    await dataplane.close()
