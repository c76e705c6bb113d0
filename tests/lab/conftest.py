"""Fixtures of the lab. Each worker has namespaces of its own, so that labs run side by side."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubeproxy.base.inet import Family
from kubeproxy.table.node import Mode
from lab.enter import is_entered
from lab.farm import Farm
from lab.machine import depends_on
from lab.namespaces import CLONE_NEWNET, CLONE_NEWNS, private_mounts, unshare
from lab.network import Network
from lab.plane import Plane, plane
from lab.programmer import DaemonProcess
from lab.responders import Responders
from lab.salvo import Salvo
from lab.stage import NFTABLES, Lab, Variant
from world import node

VARIANTS = (NFTABLES,)
HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "lab: needs namespaces; run by `make lab`")


def pytest_report_header() -> list[str]:
    return [f"lab: {what}" for what in depends_on()]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("lab")


@pytest.fixture(scope="session", autouse=True)
def _own_namespaces() -> None:
    """A network and mounts for this process alone."""
    if not is_entered():
        pytest.fail(
            "the tests in tests/lab need namespaces of their own: run `make lab`, or "
            "`PYTHONPATH=tests python -m lab.enter -- pytest tests/lab`",
            pytrace=False,
        )
    unshare(CLONE_NEWNET | CLONE_NEWNS)
    private_mounts()
    # Tests of other folders that this worker runs later listen on the loopback address.
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


@pytest.fixture(scope="session")
def network(_own_namespaces: None) -> Iterator[Network]:
    """The wired-up network, with those who answer in it."""
    network = Network()
    responders = Responders(network)
    yield network
    responders.close()
    network.close()


@pytest.fixture(scope="session", params=VARIANTS, ids=lambda variant: variant.name)
def stage(
    request: pytest.FixtureRequest, network: Network, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """A lab for all tests of a variant; use `lab`."""
    variant: Variant = request.param
    programmer = DaemonProcess(network.node, tmp_path_factory.mktemp(variant.name))
    stage = Lab(network, programmer, variant)
    yield stage
    stage.stop()


@pytest.fixture
def lab(stage: Lab, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A lab without connections; the proxy of the test before may still run in it."""
    failed = request.session.testsfailed
    yield stage
    if request.session.testsfailed > failed:
        stage.stop()  # the next test shall not suffer from what went wrong in this one
    else:
        stage.forget_connections()


# --- nftables without a daemon ----------------------------------------------------------------


@pytest.fixture(scope="module")
def farm(network: Network) -> Iterator[Farm]:
    """Endpoints by the thousand."""
    opened = Farm(network)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def salvo(network: Network, farm: Farm) -> Salvo:
    """New flows by the thousand, which the farm answers."""
    del farm  # answers
    return Salvo(network)


@pytest.fixture(params=Family, ids=lambda family: family.value)
def family(request: pytest.FixtureRequest) -> Family:
    """Each of both, where a test asks for it."""
    wanted: Family = request.param
    return wanted


@pytest.fixture
def kestrel(lab: Lab, family: Family) -> Iterator[Plane]:
    """A dataplane of one family on the node, and no daemon."""
    lab.stop()
    with plane(lab.network.node, node(Mode.NFTABLES, family)) as opened:
        yield opened
