"""An entry that cannot be written is left out and named, in every mode; all others are written."""

import asyncio
from collections.abc import Iterable

import msgspec
import pytest

from dataplane.ipvs.plane import Plane as IpvsPlane
from dataplane.nftables.plane import Plane as NftablesPlane
from dataplane.nftables.plane import service
from fakes.ipvs import FakeKernel
from fakes.nftables import FakeNftables
from fakes.xtables import FakeXtables
from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.contract import SyncReport, Update
from kubeproxy.dataplane.iptables import apply as iptables
from kubeproxy.dataplane.iptables.apply import Iptables, IptablesSettings
from kubeproxy.dataplane.unfit import Unfit, unfit
from kubeproxy.table.diff import diff
from kubeproxy.table.entries import Backend, Entry, Table
from world import Mode, node

A, B, C = service("a", 1), service("b", 2), service("c", 3)
BAD = msgspec.structs.replace(B, cluster=(Backend("nowhere", 8080),))
UNWRITABLE = msgspec.structs.replace(B, cluster=(Backend(None, 8080),))  # type: ignore[arg-type]  # a mistake


def table_with(entries: Iterable[Entry]) -> Table:
    table = Table(Family.IPV4)
    for entry in entries:
        table.put(entry)
    return table


class Nftables:
    """All modes are tried in the same words."""

    bad = BAD

    def __init__(self) -> None:
        self._plane = NftablesPlane(FakeNftables())

    def put(self, *entries: Entry, full: bool = False) -> SyncReport:
        return asyncio.run(self._plane.sync(*entries, full=full))

    def kept(self) -> object:
        return self._plane.elements


class IptablesMode:
    bad = UNWRITABLE

    def __init__(self) -> None:
        self.programs = FakeXtables()
        self._plane = Iptables(IptablesSettings(), self.programs)
        self._before = Table(Family.IPV4)

    def put(self, *entries: Entry, full: bool = False) -> SyncReport:
        table = table_with(entries)
        update = Update(table, node(Mode.IPTABLES), diff(self._before, table), full)
        self._before = table
        return asyncio.run(self._plane.apply(update))

    def kept(self) -> object:
        """The rules, as far as the last restore has all of them; the chains in any case."""
        top = [line for line in self.programs.restored[-1].splitlines() if "KUBE-SERVICES" in line]
        return sorted(self.programs.chains), top


class IpvsMode:
    bad = BAD

    def __init__(self) -> None:
        self._kernel = FakeKernel()
        self._plane = IpvsPlane(self._kernel)

    def put(self, *entries: Entry, full: bool = False) -> SyncReport:
        return self._plane.put(table_with(entries), full=full)

    def kept(self) -> object:
        return self._kernel.state()


Plane = Nftables | IptablesMode | IpvsMode


@pytest.fixture(autouse=True)
def no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iptables, "ensure_counters", lambda _: {})
    monkeypatch.setattr(iptables, "ensure_sysctl", lambda *_: False)


@pytest.fixture(params=[Nftables, IptablesMode, IpvsMode])
def kind(request: pytest.FixtureRequest) -> type[Plane]:
    found: type[Plane] = request.param
    return found


def kept_of(kind: type[Plane], *entries: Entry) -> object:
    """What a kernel has that never had anything else."""
    plane = kind()
    plane.put(*entries, full=True)
    return plane.kept()


@pytest.mark.parametrize("full", [True, False])
def test_it_is_left_out_and_named_and_the_others_are_written(
    kind: type[Plane], full: bool
) -> None:
    plane = kind()
    plane.put(A, full=True)
    report = plane.put(A, kind.bad, C, full=full)
    assert [kind.bad.name] == list(report.failed)
    assert "cannot be written" in report.failed[kind.bad.name]
    assert kept_of(kind, A, C) == plane.kept()


def test_it_stays_named_while_others_change_and_until_it_is_good_or_gone(
    kind: type[Plane],
) -> None:
    plane = kind()
    assert [kind.bad.name] == list(plane.put(A, kind.bad, full=True).failed)
    changed = msgspec.structs.replace(A, cluster=A.cluster[:1])
    assert [kind.bad.name] == list(plane.put(changed, kind.bad).failed)
    assert [kind.bad.name] == list(plane.put(changed, kind.bad, C, full=True).failed)
    assert kept_of(kind, changed, C) == plane.kept()
    assert plane.put(changed, B, C).failed == {}
    assert kept_of(kind, changed, B, C) == plane.kept()
    assert [kind.bad.name] == list(plane.put(changed, kind.bad, C).failed)
    assert kept_of(kind, changed, C) == plane.kept()
    assert plane.put(A, C).failed == {}
    assert kept_of(kind, A, C) == plane.kept()


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("error", [ZeroDivisionError, KernelError])
def test_a_failure_that_is_no_services_fault_is_not_hidden(
    kind: type[Plane], monkeypatch: pytest.MonkeyPatch, full: bool, error: type[Exception]
) -> None:
    def mistaken(*_: object, **__: object) -> None:
        raise error

    plane = kind()
    plane.put(A, full=True)
    for name in ("nftables.apply.step", "nftables.apply.reconcile", "ipvs.rules.tables"):
        monkeypatch.setattr(f"kubeproxy.dataplane.{name}", mistaken)
    monkeypatch.setattr("kubeproxy.dataplane.iptables.apply.restore_text", mistaken)
    with pytest.raises(error):
        plane.put(A, C, full=full)


def test_those_whose_lines_are_refused_are_left_out() -> None:
    plane = IptablesMode()
    plane.put(A, full=True)
    plane.programs.refused = ("10.112.0.2 ", "10.65.3.1:8080")  # at the top, and in a chain
    report = plane.put(A, B, C)
    assert {B.name, C.name} == report.failed.keys()
    assert "refused: -A KUBE-SERVICES" in report.failed[B.name]
    assert kept_of(IptablesMode, A) == plane.kept()
    plane.programs.refused = ()
    assert plane.put(A, B, C, full=True).failed == {}
    assert kept_of(IptablesMode, A, B, C) == plane.kept()


def test_when_all_are_refused_it_is_the_sync_that_fails() -> None:
    plane = IptablesMode()
    plane.programs.refused = ("10.112.0.",)
    with pytest.raises(KernelError, match="more than 20 service ports are refused"):
        plane.put(*(service(f"s{number}", number) for number in range(1, 30)), full=True)


@pytest.mark.parametrize(
    ("kind", "what"),
    [(IptablesMode, "iptables.apply.difference"), (IpvsMode, "ipvs.apply.update_state")],
)
def test_a_change_that_cannot_be_computed_is_logged_and_everything_written(
    kind: type[Plane],
    what: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def mistaken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("by nothing")

    plane = kind()
    plane.put(A, full=True)
    monkeypatch.setattr(f"kubeproxy.dataplane.{what}", mistaken)
    assert plane.put(A, C).failed == {}
    assert kept_of(kind, A, C) == plane.kept()
    said = capsys.readouterr().err
    assert "Cannot compute a change, writing everything instead" in said
    assert "ZeroDivisionError: by nothing" in said


def test_a_reason_that_is_known_is_reported_as_it_is() -> None:
    def write(entry: Entry) -> None:
        if entry is A:
            raise Unfit("it has too many of them")

    assert unfit([A, C], write) == {A.name: "it has too many of them"}
