"""What the page shows, as values: the words of `table.route`, for text and for JSON."""

from collections.abc import Iterator, Mapping

import msgspec

from kubeproxy.base.printable import printable
from kubeproxy.dataplane.contract import Dataplane
from kubeproxy.dataplane.mode import Mode
from kubeproxy.table.entries import Entry, ServicePortName, Table
from kubeproxy.table.node import Node
from kubeproxy.table.rows import entry_rows

_POLICY = {False: "Cluster", True: "Local"}


class Programmed(msgspec.Struct, frozen=True):
    """One family as the last sync left it; `failed` are service ports that the kernel refused."""

    table: Table
    node: Node
    mode: Mode
    failed: Mapping[ServicePortName, str]
    dataplane: Dataplane


class Address(msgspec.Struct, frozen=True, omit_defaults=True):
    """A frontend; the address is absent for a node port, which all node-port addresses serve."""

    kind: str
    port: int
    address: str = ""


class Way(msgspec.Struct, frozen=True, rename="camel"):
    """What clients of a frontend get, as a row of the table says it."""

    frontend: str
    source: str
    backends: str
    masquerade: str
    nobody: str


class Port(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One service port in one family. What is absent does not concern it."""

    namespace: str
    service: str
    protocol: str
    ip_family: str
    frontends: tuple[Address, ...]
    internal_traffic_policy: str
    rows: tuple[Way, ...]
    port: str = ""
    endpoints: tuple[str, ...] = ()
    local_endpoints: tuple[str, ...] = ()
    external_traffic_policy: str = ""
    affinity_seconds: int = 0
    source_ranges: tuple[str, ...] | None = None
    balance: str = ""
    not_programmed: str = ""


def port_of(entry: Entry, shown: Programmed) -> Port:
    """All that is known of a service port."""
    name = entry.name
    ranges = entry.source_ranges
    external = any(frontend.kind.external for frontend in entry.frontends)
    return Port(
        namespace=name.namespace,
        service=name.service,
        protocol=name.protocol.name,
        ip_family=shown.node.family.value,
        frontends=tuple(Address(f.kind.value, f.port, f.address) for f in entry.frontends),
        internal_traffic_policy=_POLICY[entry.internal_local],
        rows=tuple(Way(*row) for row in entry_rows(entry, shown.node, shown.mode.policy)),
        port=name.port,
        endpoints=tuple(map(str, entry.cluster)),
        local_endpoints=tuple(map(str, entry.local)),
        external_traffic_policy=_POLICY[entry.external_local] if external else "",
        affinity_seconds=entry.affinity_seconds,
        source_ranges=None if ranges is None else tuple(map(str, ranges)),
        balance=entry.balance.value if shown.mode.balances else "",
        not_programmed=shown.failed.get(name, ""),
    )


def title_of(port: Port) -> str:
    """A service port and its settings, on one line."""
    name = f"{port.namespace}/{port.service}" + (f":{port.port}" if port.port else "")
    return printable(f"{name}  {', '.join((port.protocol, port.ip_family, *_settings(port)))}")


def _settings(port: Port) -> Iterator[str]:
    yield f"internalTrafficPolicy {port.internal_traffic_policy}"
    if port.external_traffic_policy:
        yield f"externalTrafficPolicy {port.external_traffic_policy}"
    if port.balance:
        yield port.balance
    if port.not_programmed:
        yield f"NOT PROGRAMMED: {port.not_programmed}"
