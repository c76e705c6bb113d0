"""The forwarding table of one family on its way to another process: `/status/table`.

The first line says what decides about all service ports: this node, the mode, the configuration.
Then there is a line for each entry. Who reads it can build what the daemon means the kernel to
have, and compare.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from kubeproxy.base.errors import KubeProxyError
from kubeproxy.base.inet import Family
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.table.entries import Entry, HealthCheck, ServiceName, ServicePortName, Table
from kubeproxy.table.node import Node

if TYPE_CHECKING:  # who reads a table needs none of the daemon
    from kubeproxy.serve.status.live import Live


class UnreadableTable(KubeProxyError):
    """What was read is no table, or only a part of one."""


class Head(msgspec.Struct, frozen=True):
    """The first line. `entries` is how many lines follow."""

    family: Family
    mode: str
    node: Node
    config: KubeProxyConfiguration
    failed: tuple[tuple[ServicePortName, str], ...]
    health_checks: tuple[tuple[ServiceName, HealthCheck], ...]
    entries: int
    syncs: int
    syncing: bool


class Desired(msgspec.Struct, frozen=True):
    """How the daemon means the kernel to be, in one family.

    `failed` are the service ports that the kernel refused. `syncs` is how many syncs had ended
    (`syncs` of the family in `/status`): when it is the same after the kernel was read, nothing
    came between. While one is `syncing`, the kernel may not have all of it yet.
    """

    table: Table
    node: Node
    mode: str
    config: KubeProxyConfiguration
    failed: Mapping[ServicePortName, str]
    syncs: int
    syncing: bool


_HEAD: Final = msgspec.json.Decoder(Head)
_ENTRY: Final = msgspec.json.Decoder(Entry)


def table_pieces(live: "Live", family: Family) -> Iterator[bytes]:
    """The table, line by line; nothing before the first sync has succeeded.

    All of it is of one moment, that of the first piece: entries never change, so holding on to
    those of now is enough.
    """
    sync, history = live.syncs[family], live.history.of(family)
    if sync.node is None:
        return
    table = sync.builder.table
    entries = tuple(table.entries.values())
    head = Head(
        family=family,
        mode=live.mode.name,
        node=sync.node,
        config=live.config,
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
    """The table that the lines say, with the values that the daemon has."""
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
