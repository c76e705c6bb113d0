"""Generated clusters and changes, with every protocol: after each, some packets."""

import signal
from collections.abc import Iterator

import pytest

from lab.generate import Generator
from lab.ipvs import VARIANT
from lab.network import Network
from lab.pairs import Pair, all_pairs
from lab.programmer import DaemonProcess
from lab.stage import Lab
from lab.test_generated import documents

SEEDS = range(20, 23)
CHANGES = 8
PACKETS = 40


@pytest.fixture(scope="module")
def stage(network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    programmer = DaemonProcess(network.node, tmp_path_factory.mktemp("ipvs"))
    stage = Lab(network, programmer, VARIANT)
    yield stage
    stage.stop()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_sequence_of_changes(lab: Lab, seed: int) -> None:
    generator = Generator(seed)
    cluster = generator.cluster()
    lab.run(documents=documents(cluster))
    ever: dict[Pair, None] = {}  # what is gone must be gone: it is tried as well
    story = ["start"]
    for number in range(CHANGES):
        ever.update(dict.fromkeys(all_pairs(lab.expectation())))
        try:
            lab.compare(generator.choose(PACKETS, list(ever)))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, after {story}: {error}") from error
        what, cluster = generator.change(cluster)
        story.append(what)
        lab.put(*documents(cluster))
        if number == CHANGES // 2:
            story.append("restart")
            lab.restart(signal.SIGKILL)
