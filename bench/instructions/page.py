"""The section of the page with costs in instructions: results in, text out."""

from collections.abc import Iterator

from bench.instructions.figures import Results, packets, transactions
from bench.tables import markdown

_TRANSACTIONS = "What the kernel does for one change of nftables mode:"
_PACKETS = (
    "What both ends and the node do for packets from a pod to an endpoint, through a Service in "
    "the modes of ours:"
)


def section(results: Results) -> Iterator[str]:
    """Two tables a kernel."""
    yield (
        "Thousands of instructions, counted by an emulator: the same on every machine, however "
        "busy it is. They compare code and kernels; how long an instruction takes is not in them. "
        "[performance-instructions.json](performance-instructions.json) has all figures.\n"
    )
    for kernel in results.kernels:
        yield f"### Linux {kernel.release or 'unknown'} ({kernel.name})\n"
        for words, table in ((_TRANSACTIONS, transactions(kernel)), (_PACKETS, packets(kernel))):
            if table:
                yield f"{words}\n"
                yield markdown(table) + "\n"
        if kernel.problem:
            yield f"Figures are missing: {kernel.problem}.\n"
