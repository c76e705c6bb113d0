"""What a trace shows in iptables mode."""

from collections.abc import Iterator

import pytest

from kubeproxy.linux.tools import Backend
from lab.network import Network
from lab.programmer import DaemonProcess
from lab.stage import Lab
from lab.test_trace import (  # noqa: F401  # run again here
    test_every_frontend_shows_who_answers_and_what_he_sees,
    test_masquerade_and_hairpin,
)
from lab.xtables import VARIANTS, programs


@pytest.fixture(scope="module")
def stage(network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab for all tests of this file."""
    directory = tmp_path_factory.mktemp("iptables-trace")
    with programs(Backend.NFT, directory / "bin"):
        stage = Lab(network, DaemonProcess(network.node, directory), VARIANTS[Backend.NFT])
        yield stage
        stage.stop()
