"""The section of the page with costs in instructions: results in, text out."""

from collections.abc import Iterator

from bench.instructions.figures import Results, packets, transactions
from bench.tables import markdown

_TRANSACTIONS = "What the kernel does for one change of nftables mode:"
_PACKETS = (
    "What both ends and the node do for packets between a pod and an endpoint, through a Service "
    "in the modes of ours{peer}:"
)


def section(results: Results) -> Iterator[str]:
    """Two tables a kernel."""
    yield (
        "Thousands of instructions, counted by an emulator: the same on every machine, however "
        "busy it is. They compare code and kernels; how long an instruction takes is not in them. "
        "[performance-instructions.json](performance-instructions.json) has all figures.\n"
    )
    peer = f", and of the peer, {results.peer}" if results.peer else ""
    words = (_TRANSACTIONS, _PACKETS.format(peer=peer))
    for kernel in results.kernels:
        yield f"### Linux {kernel.release or 'unknown'} ({kernel.name})\n"
        for title, table in zip(words, (transactions(kernel), packets(kernel)), strict=True):
            if table:
                yield f"{title}\n"
                yield markdown(table) + "\n"
        if kernel.problem:
            yield f"Figures are missing: {kernel.problem}.\n"
