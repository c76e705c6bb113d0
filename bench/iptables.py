"""Table to kernel in iptables mode; with --idle without the programs, for our own share alone.

Runs in a network namespace of its own: `unshare --net python -m bench.iptables 5000 10`. In a
user namespace the nft kind of the programs has too small a buffer for such clusters.
"""

import asyncio
import sys
from unittest import mock

from bench.clusters import Size
from bench.compiled import Compiled
from bench.shares import PROGRAMS, measure
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.iptables.apply import Iptables, IptablesSettings
from kubeproxy.linux.xtables import Xtables

CHANGES = 20


def start() -> Iptables:
    return Iptables(IptablesSettings(), Xtables(Family.IPV4))


def idle(*_: object, **__: object) -> str:
    """A program that does nothing."""
    return ""


if __name__ == "__main__":
    run = "_run"  # every program is run by it
    program = idle if "--idle" in sys.argv else getattr(Xtables, run)
    with mock.patch.object(Xtables, run, PROGRAMS.on(program)):
        asyncio.run(measure(Compiled(Size(*map(int, sys.argv[1:3]))), start, CHANGES))
