"""Watches: whatever they bring, nothing is raised and no good service is lost."""

import contextlib

from hypothesis import strategies as st

from fakes.dataplane import FakeDataplane
from fuzz.proxy import Proxy, Step, steps
from fuzz.rounds import fuzz
from world import Mode, node


def follow(history: list[Step]) -> None:
    kernel = FakeDataplane()
    with contextlib.closing(Proxy(kernel, node(Mode.NFTABLES))) as proxy:
        for step in history:
            proxy.step(step)
            assert proxy.sync.builder.table.entries == kernel.entries


def test_watches() -> None:
    fuzz(st.lists(steps(), min_size=1, max_size=6), follow)
