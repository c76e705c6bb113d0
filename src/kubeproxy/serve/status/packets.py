"""The running daemon -> what happens to packets, and why."""

import re
from collections.abc import Sequence
from typing import Final

from kubeproxy.base.errors import OperatorError
from kubeproxy.engine.node import node_ips, with_bind_address
from kubeproxy.explain.answers import Asked, View, explained, meant
from kubeproxy.explain.question import Question
from kubeproxy.explain.words import Explanation
from kubeproxy.serve.http.pace import unhurried
from kubeproxy.serve.status.live import Live

NOT_YET: Final = "nothing is programmed yet: ask again when the first sync is over"
MOST: Final = 200
"""Packets that are explained at once: the answer is kept in memory until it is complete."""
_FLAG: Final = re.compile(r"--(?=from\b|to\b|interface\b)")


def is_ready(live: Live) -> bool:
    """Whether any family is programmed, so that there is something to explain."""
    return any(sync.node is not None for sync in live.syncs.values())


def unanswered(error: OperatorError, live: Live) -> str:
    """Why a question has no answer: what flags are for the command are fields here.

    Of a family without a sync that succeeded nothing is known, which may be the reason.
    """
    missing = [family.value for family, sync in live.syncs.items() if sync.node is None]
    about = f" (nothing of {missing[0]} is programmed yet)" if missing else ""
    return _FLAG.sub("", str(error)) + about


async def explanations(
    live: Live, source: str, destinations: Sequence[str], interface: str = ""
) -> list[Explanation]:
    """What happens to packets, as the tables are now.

    A Service may have thousands of ports, and each answer names every endpoint.
    """
    synced = {
        family: (sync, sync.node) for family, sync in live.syncs.items() if sync.node is not None
    }
    view = View(
        cluster=live.cluster,
        mode=live.mode.policy,
        ips=node_ips(with_bind_address(live.cluster.node, live.config.bind_address)),
        tables={family: sync.builder.table for family, (sync, _) in synced.items()},
        nodes={family: node for family, (_, node) in synced.items()},
        conflicts={family: sync.builder.conflicts() for family, (sync, _) in synced.items()},
        pods=None,
    )
    packets: list[Question] = []
    async for destination in unhurried(destinations):
        packets += meant(Asked(source, (destination,), interface), view)
        if len(packets) > MOST:
            raise OperatorError(
                f"--to {destination}: that makes {len(packets):,} packets, and no more than {MOST}"
                " are explained at once; name a port"
            )
    return [explained(packet, view) async for packet in unhurried(packets)]
