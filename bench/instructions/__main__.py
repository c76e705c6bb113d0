"""Costs in instructions on stock kernels of Debian: `make bench-instructions`.

Transactions of nftables mode by kind of change; and connections, requests with their responses
and streams on their way through a node: without a proxy, in the modes of ours, and with the peer.
The figures go into a file; `python -m bench.page` puts them on the page.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.instructions.figures import (
    PART,
    PEER_FILE,
    Asked,
    OnKernel,
    Results,
    figures_in,
    packets,
    transactions,
    write,
)
from bench.instructions.ways import WAYS
from bench.machine import ROOT, this_code, version_of
from bench.tables import plain
from kernels.boot import Machine
from kernels.debian import DEFAULT, NotAvailable
from kernels.job import Job, Step
from kernels.results import Run, cell
from kernels.session import INTERRUPTED, default_cache, processor_seconds, session, show

KERNELS = ",".join(DEFAULT[:3])
SECONDS = 4 * 3600.0
MEMORY = 2048


def main(given: Sequence[str]) -> int:
    """Measure, print, write; 0 if there are all figures of every kernel."""
    arguments = parsed(given)
    asked = Asked(_numbers(arguments.sizes), _numbers(arguments.path_sizes), tuple(arguments.ways))
    step = Step(
        (PART,), "bench.instructions.guest", (msgspec.json.encode(asked).decode(),), SECONDS
    )
    files = {PEER_FILE: arguments.peer.read_bytes()} if arguments.peer else {}
    try:
        with session(
            arguments.cache,
            Job((step,)),
            Machine(arguments.memory, SECONDS),
            files,
        ) as opened:
            runs = opened.run_all(arguments.kernels.split(","), arguments.at_once)
    except NotAvailable as error:
        show(f"No kernel could be run: {error}")
        return 1
    except KeyboardInterrupt:  # before there was a machine
        return INTERRUPTED
    if any(run.interrupted for run in runs):
        return INTERRUPTED
    results = Results(
        date=time.strftime("%Y-%m-%d", time.gmtime()),
        command=_command(arguments),
        code=this_code(),
        kernels=tuple(map(_on_kernel, runs)),
        peer=version_of(str(arguments.peer)) if arguments.peer else "",
    )
    write(results, arguments.output)
    for kernel in results.kernels:
        show(f"\n{kernel.name} {kernel.release} {kernel.problem}, in thousands of instructions")
        for table in filter(None, (transactions(kernel), packets(kernel))):
            show(f"\n{plain(table)}")
    show(f"\nprocessor time: {processor_seconds():.0f} s; all figures are in {arguments.output}")
    return 1 if any(kernel.problem for kernel in results.kernels) else 0


def _on_kernel(run: Run) -> OnKernel:
    found = figures_in(line.data for line in run.lines)
    return OnKernel(run.name, run.release, found, cell(run, PART).reason)


def parsed(given: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser("python -m bench.instructions", description=__doc__)
    add = parser.add_argument
    add("--cache", type=Path, default=default_cache(), help="of kernels (%(default)s)")
    add("--kernels", default=KERNELS, help="suites (%(default)s)")
    add("--sizes", default="1000,5000,20000", help="services, for changes (%(default)s)")
    add("--path-sizes", default="10,1000", help="services, for packets (%(default)s)")
    add("--ways", type=_ways, help="of packets (all, and a peer's if there is one)")
    add("--peer", type=Path, help="a static kube-proxy, for the ways of a peer")
    add("--at-once", type=int, default=2, help="machines (%(default)s)")
    add("--memory", type=int, default=MEMORY, help="megabytes of each (%(default)s)")
    add("--output", type=Path, default=ROOT / "bench/results/instructions.json")
    arguments = parser.parse_args(given)
    possible = [way for way in WAYS if arguments.peer or not way.startswith(PEER_FILE)]
    arguments.ways = possible if arguments.ways is None else arguments.ways
    if not set(arguments.ways) <= set(possible):
        parser.error("these ways need --peer /path/to/kube-proxy")
    return arguments


def _ways(text: str) -> list[str]:
    words = [word for word in text.split(",") if word]
    unknown = set(words) - set(WAYS)
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no way {', '.join(sorted(unknown))}")
    return words


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(",") if word)


def _command(arguments: argparse.Namespace) -> str:
    """What to type to have the same measured elsewhere."""
    peer = " PEER=/path/to/kube-proxy" if arguments.peer else ""
    return f"make bench-instructions{peer}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
