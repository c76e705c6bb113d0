"""Every file of `cases/`: manifests in, table and packets' fates out, as text for human eyes.

`make golden` rewrites the expected parts. The diff is reviewed as code.
"""

from pathlib import Path

import msgspec
import pytest
import yaml

from kubeproxy.base.inet import Family, family_of
from kubeproxy.cluster.model.cluster import Cluster
from kubeproxy.cluster.objects.decode import convert
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.table.build import Builder
from kubeproxy.table.decide import Action, Verdict, decide
from kubeproxy.table.entries import Table
from kubeproxy.table.node import NodeView
from kubeproxy.table.rows import aligned, rows
from world import NODE_NAME, Mode, node, packet, prefix, seen_by

CASES = sorted(Path(__file__).with_name("cases").glob("*.case"))
DERIVED = ("table", "packets")


def sections(text: str) -> dict[str, str]:
    """`-- name --` lines part the file; what stands before the first is its description."""
    found = {"": ""}
    name = ""
    for line in text.splitlines(keepends=True):
        if line.startswith("-- ") and line.rstrip().endswith(" --"):
            name = line.strip("- \n")
            found[name] = ""
        else:
            found[name] += line
    return found


class Settings(msgspec.Struct, frozen=True):
    """The `settings` section: what differs from the defaults of the address plan."""

    mode: str = "nftables"
    family: str = "IPv4"
    masquerade_all: bool = False
    detector: bool = True
    node_port_addresses: tuple[str, ...] | None = None


def here(settings: Settings) -> NodeView:
    default = node(Mode(settings.mode), Family(settings.family))
    ranges = settings.node_port_addresses
    return msgspec.structs.replace(
        default,
        masquerade_all=settings.masquerade_all,
        detector=default.detector if settings.detector else None,
        node_port_ranges=default.node_port_ranges
        if ranges is None
        else tuple(map(prefix, ranges)),
    )


def compiled(manifests: str, family: Family) -> Table:
    cluster = Cluster(NODE_NAME)
    for document in yaml.safe_load_all(manifests):
        kind = Kind(document["kind"])
        cluster.upsert(kind, convert(kind, document))
    builder = Builder(family)
    builder.update(cluster, (), seen_by(cluster, family))
    return builder.table


def fate(verdict: Verdict) -> str:
    if verdict.action not in {Action.FORWARD, Action.LOCAL_PROXY}:
        return str(verdict.action.value)
    return " | ".join(
        f"{choice.backend}{' masquerade' if choice.masquerade else ''}"
        for choice in verdict.choices
    )


def derived(parts: dict[str, str]) -> dict[str, str]:
    settings = msgspec.yaml.decode(parts.get("settings", "") or "{}", type=Settings)
    mode, family = Mode(settings.mode), Family(settings.family)
    this_node = here(settings)
    table = compiled(parts["manifests"], family)
    lines = []
    for line in parts["packets"].splitlines():
        sent = "  ".join(line.split()[:2])
        if sent:
            asked = packet(sent)
            assert family_of(asked.source) is family, line
            lines.append(f"{sent:<40} {fate(decide(asked, table, this_node, mode.quirks))}\n")
    return {
        "table": aligned(rows(table, this_node, mode.quirks)) + "\n",
        "packets": "".join(lines),
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_case(case: Path, request: pytest.FixtureRequest) -> None:
    parts = sections(case.read_text())
    actual = derived(parts)
    if request.config.getoption("--golden"):
        parts.update({name: f"{actual[name]}\n" for name in DERIVED})
        text = "".join(f"-- {name} --\n{body}" if name else body for name, body in parts.items())
        case.write_text(text.rstrip("\n") + "\n")
        return
    for name in DERIVED:
        assert parts[name].strip("\n") == actual[name].strip("\n"), name


def test_there_are_cases() -> None:
    assert CASES
