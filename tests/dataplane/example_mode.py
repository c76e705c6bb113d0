"""A mode that keeps its rules in memory, as text."""

import asyncio

from kubeproxy.dataplane.contract import Lost, SyncReport, Update
from kubeproxy.dataplane.leftovers import Cleanup
from kubeproxy.dataplane.mode import Mode
from kubeproxy.table.quirks import Quirks
from kubeproxy.table.rows import rows

RULES: dict[str, object] = {}


class Memory:
    async def apply(self, update: Update) -> SyncReport:
        RULES[update.node.family.value] = rows(update.table, update.node, Quirks())
        return SyncReport(written=len(update.table.entries))

    async def watch(self, _lost: Lost) -> None:
        await asyncio.Event().wait()  # nothing else writes there

    async def close(self) -> None: ...


def clean_up(cleanup: Cleanup) -> None:
    while RULES:
        cleanup.note(f"{RULES.popitem()[0]} rules")


MODE = Mode(
    name="memory",
    quirks=Quirks(),
    open=lambda _config: lambda _family: Memory(),
    render=lambda _config, table, node: str(rows(table, node, Quirks())),
    drift=lambda *_: [],
    clean_up=clean_up,
)
