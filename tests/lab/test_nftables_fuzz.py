"""Watches that bring whatever comes, down to a real kernel: it serves what `decide` says.

After every step the rules are read back with nft. They are those of the forwarding table, in which
the good services are as they are meant to be (`fuzz.proxy`).
"""

import contextlib
from collections.abc import Iterator

import pytest
from hypothesis import strategies as st

from fuzz.proxy import Proxy, Step, steps
from fuzz.rounds import fuzz
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.nftables.apply import Nftables
from kubeproxy.dataplane.nftables.describe import describe
from kubeproxy.dataplane.nftables.guard import TableGuard
from kubeproxy.dataplane.nftables.program import NftablesSettings, program
from kubeproxy.linux.nfnetlink import Nfnetlink
from lab.listing import blocks, list_table, without_idle_choices
from lab.namespaces import Namespace
from world import Mode, node

NODE = node(Mode.NFTABLES)
PROGRAM = program(NODE, NftablesSettings())


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    made = Namespace("fuzz")
    with made.entered():
        yield made
    made.close()


def test_no_good_service_is_lost(namespace: Namespace) -> None:
    def follow(history: list[Step]) -> None:
        dataplane = Nftables(Family.IPV4, NftablesSettings(), Nfnetlink(), TableGuard())
        with contextlib.closing(Proxy(dataplane, NODE)) as proxy:
            for step in history:
                proxy.step(step)
                wanted = blocks(describe(PROGRAM, proxy.sync.builder.table, NODE))
                found = blocks(list_table(namespace, Family.IPV4))
                assert wanted == without_idle_choices(found, wanted)

    fuzz(st.lists(steps(), min_size=1, max_size=6), follow)
