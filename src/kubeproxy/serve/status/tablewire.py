"""The forwarding table of one family as lines of JSON, for another process: `/status/table`.

The first line has what concerns all service ports: this node, the mode, the configuration. Then
there is a line for each entry. The reader can compute the desired state of the kernel from it.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from kubeproxy.base.errors import KubeProxyError
from kubeproxy.base.inet import Family
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.serve.status.state import State
from kubeproxy.table.entries import Entry, HealthCheck, ServiceName, ServicePortName, Table
from kubeproxy.table.node import NodeView


class UnreadableTable(KubeProxyError):
    """The answer is not a table, or only a part of one."""


class TableHead(msgspec.Struct, frozen=True):
    """The first line. `entries` is how many lines follow."""

    family: Family
    mode: str
    node: NodeView
    config: KubeProxyConfiguration
    failed: tuple[tuple[ServicePortName, str], ...]
    health_checks: tuple[tuple[ServiceName, HealthCheck], ...]
    entries: int
    syncs: int
    syncing: bool


class Desired(msgspec.Struct, frozen=True):
    """The desired state of the kernel in one family.

    `failed` are the service ports that the kernel refused. `syncs` is how many syncs had ended
    (`syncs` of the family in `/status`): when it is the same after the kernel was read, there was
    no sync in between. While one is `syncing`, the kernel may not have all of it yet.
    """

    table: Table
    node: NodeView
    mode: str
    config: KubeProxyConfiguration
    failed: Mapping[ServicePortName, str]
    syncs: int
    syncing: bool


_HEAD: Final = msgspec.json.Decoder(TableHead)
_ENTRY: Final = msgspec.json.Decoder(Entry)


def table_pieces(state: State, family: Family) -> Iterator[bytes]:
    """The table, line by line; nothing before the first sync has succeeded.

    All of it is of one moment, that of the first piece: entries are never changed.
    """
    sync = state.families[family]
    if sync.node is None:
        return
    table, history = sync.builder.table, sync.history
    entries = tuple(table.entries.values())
    head = TableHead(
        family=family,
        mode=state.mode.name,
        node=sync.node,
        config=state.config,
        failed=tuple(sync.failed.items()),
        health_checks=tuple(table.health_checks.items()),
        entries=len(entries),
        syncs=history.count,
        syncing=history.running,
    )
    encode = msgspec.json.Encoder().encode
    yield encode(head) + b"\n"
    for entry in entries:
        yield encode(entry) + b"\n"


def read_table(data: bytes) -> Desired:
    """The table, with the values that the daemon has."""
    first, _, rest = data.partition(b"\n")
    try:
        head = _HEAD.decode(first)
        entries = _ENTRY.decode_lines(rest)
    except msgspec.DecodeError as error:
        raise UnreadableTable(
            f"the daemon's table cannot be read, it may be of another version: {error}"
        ) from error
    if len(entries) != head.entries:
        raise UnreadableTable(
            f"the daemon's table broke off after {len(entries)} of {head.entries} service ports"
        )
    table = Table(head.family)
    table.health_checks.update(head.health_checks)
    for entry in entries:
        table.put(entry)
    return Desired(
        table=table,
        node=head.node,
        mode=head.mode,
        config=head.config,
        failed=dict(head.failed),
        syncs=head.syncs,
        syncing=head.syncing,
    )
