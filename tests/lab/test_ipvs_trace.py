"""What a trace shows of virtual servers; in a kernel that has them."""

from collections.abc import Iterator

import pytest

from lab.ipvs import VARIANT
from lab.network import Network
from lab.programmer import DaemonProcess
from lab.stage import Lab
from lab.test_trace import (  # noqa: F401  # run again here
    test_every_frontend_shows_who_answers_and_what_he_sees,
    test_masquerade_and_hairpin,
)


@pytest.fixture(scope="module")
def stage(network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab for all tests of this file."""
    programmer = DaemonProcess(network.node, tmp_path_factory.mktemp("ipvs"))
    stage = Lab(network, programmer, VARIANT)
    yield stage
    stage.stop()
