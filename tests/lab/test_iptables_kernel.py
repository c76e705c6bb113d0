"""Iptables mode on a real kernel, without a daemon: what is read back, and what failures leave.

The golden texts are what `iptables-save` prints, of either kind, but for its remarks and counters,
and for the counters of nfacct, which not every kernel has.
"""

import asyncio
import fcntl
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from dataplane.iptables.clusters import CLUSTERS, kestrel, table
from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.contract import SyncReport, Update
from kubeproxy.dataplane.iptables.apply import Iptables, IptablesSettings
from kubeproxy.linux.tools import RuleKind, find
from kubeproxy.linux.xtables import Xtables
from kubeproxy.table.diff import NO_CHANGES, Changes, diff, patch
from kubeproxy.table.entries import Backend as Endpoint
from kubeproxy.table.entries import Entry, Frontend, FrontendKind, Table
from lab.namespaces import Namespace
from lab.network import Network
from lab.xtables import IPTABLES, PROGRAMS, programs

GOLDEN = Path(__file__).parents[1] / "dataplane/iptables/golden"
_COUNTED = re.compile(r"\[\d+:\d+\]|-m nfacct --nfacct-name  ?ct_state_invalid_dropped_pkts ")


class Plane:
    """One family of iptables mode in a namespace."""

    def __init__(self, namespace: Namespace, family: Family, directory: Path) -> None:
        self.namespace = namespace
        self.family = family
        self.bin = directory
        self.program = PROGRAMS[list(Family).index(family)]
        self.table = Table(family)
        self._runner = asyncio.Runner()
        self._dataplane = Iptables(IptablesSettings(), Xtables(family))
        self._full = True

    def put(self, name: str) -> None:
        """Have the kernel be as the cluster of that name wants it."""
        changes = diff(self.table, table(name, self.family))
        patch(self.table, changes)
        self.apply(changes)

    def apply(self, changes: Changes = NO_CHANGES) -> SyncReport:
        full, self._full = self._full, True  # as long as it did not succeed
        update = Update(self.table, kestrel(self.family), changes, full)
        with self.namespace.entered():
            report = self._runner.run(self._dataplane.apply(update))
        self._full = False
        return report

    def saved(self) -> str:
        """The tables as they are in the kernel."""
        text = ""
        for name in ("filter", "nat"):
            text += self.namespace.run([f"{self.program}-save", "-t", name])
        lines = (line for line in text.splitlines() if not line.startswith("#"))
        kept = (line for line in lines if "localhost_nps_accepted_pkts" not in line)
        return "".join(f"{_COUNTED.sub('', line).rstrip()}\n" for line in kept)

    def replace(self, verb: str, script: str) -> None:
        """Have another program in the place of the real one; REAL in the script is that."""
        program = self.bin / f"{self.program}{verb}"
        real = program.readlink()
        program.unlink()
        program.write_text(
            "#!/bin/bash\n" + script.replace("REAL", f"exec -a {program.name} {real}") + "\n"
        )
        program.chmod(0o755)

    def put_back(self, verb: str, backend: RuleKind) -> None:
        target = find(f"xtables-{backend.value}-multi")
        assert target is not None
        program = self.bin / f"{self.program}{verb}"
        program.unlink(missing_ok=True)
        program.symlink_to(target)

    def close(self) -> None:
        """End, and leave nothing in the kernel."""
        self._runner.close()
        for command in IPTABLES[RuleKind.LEGACY].flush:
            self.namespace.run(command)


@pytest.fixture(params=RuleKind, ids=lambda backend: backend.value)
def backend(request: pytest.FixtureRequest) -> RuleKind:
    kind: RuleKind = request.param
    return kind


@pytest.fixture(params=Family, ids=lambda family: family.value)
def plane(
    request: pytest.FixtureRequest, network: Network, backend: RuleKind, tmp_path: Path
) -> Iterator[Plane]:
    with programs(backend, tmp_path / "bin") as directory:
        opened = Plane(network.node, request.param, directory)
        yield opened
        for verb in ("", "-save", "-restore"):
            opened.put_back(verb, backend)
        opened.close()


@pytest.mark.parametrize("name", CLUSTERS)
def test_what_is_read_back(plane: Plane, name: str, request: pytest.FixtureRequest) -> None:
    file = GOLDEN / f"{name}.{plane.family.value}.saved"
    plane.put(name)
    actual = plane.saved()
    if request.config.getoption("--golden"):
        file.write_text(actual)
    assert file.read_text() == actual


@pytest.mark.parametrize(
    "name",
    [
        pytest.param('a"b', id="quotation-mark"),
        pytest.param("a\\", id="backslash"),
        pytest.param("a\n-F\n\x1b[2J", id="line-breaks"),
        pytest.param("k\u00e4se" * 60, id="long-and-beyond-ascii"),
    ],
)
def test_a_name_that_no_api_server_would_take_spoils_nothing(plane: Plane, name: str) -> None:
    for entry in table("cluster-ip", plane.family).entries.values():
        odd = entry.name._replace(service=name)
        plane.table.put(msgspec.structs.replace(entry, name=odd))
    before = plane.saved().count("KUBE-SVC-")
    plane.apply()
    assert plane.saved().count("KUBE-SVC-") > before


def bad_ones(good: Entry) -> list[Entry]:
    """Values that no model lets through: the program refuses the line, or there is none."""
    replace, name = msgspec.structs.replace, good.name._replace
    port = Frontend(FrontendKind.NODE_PORT, "", 70_000)
    invalid = Endpoint(None, 80)  # type: ignore[arg-type]  # a mistake
    elsewhere = Endpoint(good.cluster[0].address, 99_999)
    return [
        replace(good, name=name(service="line"), frontends=(port,), externally_accessible=True),
        replace(good, name=name(service="chain"), cluster=(elsewhere,)),
        replace(good, name=name(service="value"), cluster=(invalid,)),
    ]


def test_service_ports_that_are_refused_are_left_out_and_the_others_are_written(
    plane: Plane,
) -> None:
    wanted = (GOLDEN / f"cluster-ip.{plane.family.value}.saved").read_text()
    plane.put("cluster-ip")
    good = next(entry for entry in plane.table.entries.values() if entry.has_endpoints)
    bad = bad_ones(good)
    changes = Changes(added=tuple(bad))
    patch(plane.table, changes)
    report = plane.apply(changes)
    assert {entry.name for entry in bad} == report.failed.keys()
    assert wanted == plane.saved()
    plane._full = True
    assert {entry.name for entry in bad} == plane.apply().failed.keys()
    assert wanted == plane.saved()
    gone = Changes(removed=tuple(bad))
    patch(plane.table, gone)
    assert plane.apply(gone).failed == {}
    assert wanted == plane.saved()


def test_changes_lead_where_a_fresh_start_does(plane: Plane) -> None:
    for name in ("source-ranges", "local-policies", "nothing", "affinity", "node-port"):
        plane.put(name)
        file = GOLDEN / f"{name}.{plane.family.value}.saved"
        assert file.read_text() == plane.saved(), name


BAD_RULE = r"sed '0,/^-A/s//-A KUBE-NONSENSE -j NOWHERE\n&/' | REAL"


@pytest.mark.parametrize(
    ("verb", "script", "said"),
    [
        pytest.param("-restore", f'{BAD_RULE} "$@"', r"line \d+ is: ", id="bad-rule"),
        pytest.param("-restore", "kill -9 $$", "killed by SIGKILL", id="killed"),
        pytest.param(
            "-restore",
            'input=$(cat); { head -c 200 <<< "$input"; kill -9 $$; } | REAL "$@"',
            "killed by SIGKILL",
            id="killed-half-way",
        ),
        pytest.param("", "exit 3", "exit code 3", id="jumps-cannot-be-looked-at"),
    ],
)
def test_a_failure_leaves_what_was_and_the_next_sync_repairs(
    plane: Plane, backend: RuleKind, verb: str, script: str, said: str
) -> None:
    plane.put("cluster-ip")
    before = plane.saved()
    plane.replace(verb, script)
    if not verb:
        plane._full = True
    with pytest.raises(KernelError, match=said):
        plane.put("affinity")
    plane.put_back(verb, backend)
    assert before == plane.saved()
    plane.apply()
    assert (GOLDEN / f"affinity.{plane.family.value}.saved").read_text() == plane.saved()


def test_a_program_that_is_gone_and_comes_back(
    plane: Plane, backend: RuleKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane.put("cluster-ip")
    before = plane.saved()
    (plane.bin / f"{plane.program}-restore").unlink()
    with monkeypatch.context() as patch_:
        patch_.setenv("PATH", str(plane.bin))
        patch_.setattr("kubeproxy.linux.tools._ELSEWHERE", "/nowhere")
        with pytest.raises(KernelError, match=r"tables-restore is not installed"):
            plane.put("affinity")
    plane.put_back("-restore", backend)
    assert before == plane.saved()
    plane.apply()
    assert (GOLDEN / f"affinity.{plane.family.value}.saved").read_text() == plane.saved()


@pytest.mark.parametrize("backend", [RuleKind.LEGACY], indirect=True)
def test_another_program_holds_the_lock(plane: Plane) -> None:
    plane.put("cluster-ip")
    before = plane.saved()
    with Path("/run/xtables.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(KernelError, match="another program holds the lock"):
            plane.put("affinity")
    assert before == plane.saved()
    plane.apply()
    assert (GOLDEN / f"affinity.{plane.family.value}.saved").read_text() == plane.saved()


def test_a_chain_in_use_by_others_is_emptied_and_stays(plane: Plane) -> None:
    nat = [plane.program, "-w", "-t", "nat"]
    for words in ("-N THEIRS", "-N KUBE-SVC-OLD", "-A KUBE-SVC-OLD -j RETURN"):
        plane.namespace.run([*nat, *words.split()])
    plane.namespace.run([*nat, "-A", "THEIRS", "-j", "KUBE-SVC-OLD"])
    plane.namespace.run([*nat, "-N", "KUBE-SEP-OLD"])
    plane.put("cluster-ip")
    saved = plane.saved()
    assert "-A THEIRS -j KUBE-SVC-OLD" in saved
    assert "-A KUBE-SVC-OLD" not in saved
    assert "KUBE-SEP-OLD" not in saved
