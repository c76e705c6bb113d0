"""Service ports as rows of the forwarding table, and what was written for them: `/rules`.

As text or JSON, in pieces of about a millisecond's work. A service port that has gone by the next
piece is left out.
"""

from collections.abc import Iterator, Sequence

import msgspec

from kubeproxy.base.printable import printable
from kubeproxy.dataplane.contract import Shows
from kubeproxy.dataplane.mode import Mode
from kubeproxy.serve.status.state import FamilyState, State
from kubeproxy.serve.status.wire import (
    RuleFrontend,
    RulePort,
    RuleRow,
    WrittenRules,
    json_items,
)
from kubeproxy.serve.status.words import plural, ranges
from kubeproxy.table.entries import Entry, ServicePortName, Table
from kubeproxy.table.node import NodeView
from kubeproxy.table.rows import aligned, entry_rows

_INDENT = "    "
_PORTS_AT_ONCE = 20
"""A Service may have thousands of ports, and each of them thousands of rules."""


class Selected(msgspec.Struct, frozen=True):
    """Some service ports of a family that is programmed."""

    family: FamilyState
    node: NodeView
    mode: Mode
    names: Sequence[ServicePortName]

    @property
    def table(self) -> Table:
        """The table of the family."""
        return self.family.builder.table


def select(state: State, wanted: tuple[str, ...]) -> list[Selected]:
    """The service ports that a path names: all, those of a namespace, those of a Service."""
    found = []
    for family in state.families.values():
        if family.node is not None:
            names = list(family.builder.table.entries)
            if wanted:
                names = sorted(name for name in names if name[: len(wanted)] == wanted)
            found.append(Selected(family, family.node, state.mode, names))
    return found


def text_pieces(selected: Sequence[Selected], *, written: bool) -> Iterator[bytes]:
    """Each service port: its settings, then a row for each frontend and class of traffic.

    With `written`, what was last written for the service ports follows.
    """
    for each in selected:
        count = plural(len(each.names), "service port")
        yield f"# {each.family.family.value}: {count}, mode {each.mode.name}\n".encode()
    yield b"\n"
    for port in _ports(selected):
        rows = aligned(msgspec.structs.astuple(row) for row in port.rows)
        lines = (_INDENT + line for line in rows.split("\n"))
        yield ("\n".join((_title(port), *lines)) + "\n\n").encode()
    for wrote in _written(selected) if written else ():
        heading = f"# {wrote.ip_family}, written last in {wrote.mode} mode"
        body = f"{heading}\n{wrote.text}\n" if wrote.text else f"{heading}: nothing\n\n"
        yield body.encode()


def json_pieces(selected: Sequence[Selected], *, written: bool) -> Iterator[bytes]:
    """The same as one JSON object, `{"servicePorts": [...], "written": [...]}`."""
    yield b'{"servicePorts":['
    yield from json_items(_ports(selected))
    if written:
        yield b'],"written":['
        yield from json_items(_written(selected))
    yield b"]}\n"


def _written(selected: Sequence[Selected]) -> Iterator[WrittenRules]:
    """What was last written for the service ports, family by family."""
    for each in selected:
        plane = each.family.dataplane
        for start in range(0, len(each.names) or 1, _PORTS_AT_ONCE):
            some = each.names[start : start + _PORTS_AT_ONCE]
            text = plane.written(each.table, some) if isinstance(plane, Shows) else ""
            yield WrittenRules(each.family.family.value, each.mode.name, text)


def _ports(selected: Sequence[Selected]) -> Iterator[RulePort]:
    for each in selected:
        for name in each.names:
            entry = each.table.entries.get(name)
            if entry is not None:
                yield _port(entry, each)


def _port(entry: Entry, shown: Selected) -> RulePort:
    name = entry.name
    external = any(frontend.kind.external for frontend in entry.frontends)
    return RulePort(
        namespace=name.namespace,
        service=name.service,
        protocol=name.protocol.name,
        ip_family=shown.family.family.value,
        frontends=tuple(RuleFrontend(f.kind.value, f.port, f.address) for f in entry.frontends),
        internal_traffic_policy=entry.internal.outside.scope.value,
        rows=tuple(RuleRow(*row) for row in entry_rows(entry, shown.node, shown.mode.quirks)),
        port=name.port,
        endpoints=tuple(map(str, entry.cluster)),
        local_endpoints=tuple(map(str, entry.local)),
        external_traffic_policy=entry.external.outside.scope.value if external else "",
        affinity_seconds=entry.affinity_seconds,
        source_ranges=ranges(entry.source_ranges),
        balance=entry.balance.value if shown.mode.balances else "",
        not_programmed=shown.family.failed.get(name, ""),
    )


def _title(port: RulePort) -> str:
    """A service port and its settings, on one line."""
    name = f"{port.namespace}/{port.service}" + (f":{port.port}" if port.port else "")
    shown = (
        ("", port.protocol),
        ("", port.ip_family),
        ("internalTrafficPolicy ", port.internal_traffic_policy),
        ("externalTrafficPolicy ", port.external_traffic_policy),
        ("", port.balance),
        ("NOT PROGRAMMED: ", port.not_programmed),
    )
    return printable(f"{name}  {', '.join(label + text for label, text in shown if text)}")
