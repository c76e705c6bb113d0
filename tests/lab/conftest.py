"""Fixtures of the lab. Each worker has namespaces of its own, so that labs run side by side."""

import contextlib
import subprocess
from collections.abc import Iterator

import pytest

from kubeproxy.base.inet import Family
from lab.enter import is_entered
from lab.farm import Farm
from lab.healed import Healer, healer
from lab.machine import depends_on
from lab.modes import CHOICES, chosen, difference, is_selected
from lab.namespaces import CLONE_NEWNET, CLONE_NEWNS, private_mounts, unshare
from lab.network import Network
from lab.plane import Plane, plane
from lab.programmer import DaemonProcess
from lab.responders import Responders
from lab.salvo import Salvo
from lab.stage import Lab, Variant
from lab.xtables import programs
from world import Mode, node

OPTION = "--mode"
DEFAULT = "nftables"
MARKERS = (
    "lab: needs namespaces; run by `make lab`",
    "only_in: the modes in which a test runs",
    "differs_in: the modes in which a test is not true, and why",
    "sctp: has something to show in a kernel with SCTP, in each mode",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        OPTION,
        choices=CHOICES,
        default=DEFAULT,
        help="the mode in which scenarios run: each removes the rules of others (lab.modes)",
    )


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


def pytest_report_header() -> list[str]:
    return [f"lab: {what}" for what in depends_on()]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "stage" in metafunc.fixturenames:
        variants = chosen(metafunc.config.getoption(OPTION, DEFAULT))
        ids = [variant.name for variant in variants]
        metafunc.parametrize("stage", variants, indirect=True, ids=ids, scope="session")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    mode = config.getoption(OPTION, DEFAULT)
    left_out = []
    for item in items:
        if not isinstance(item, pytest.Function) or "_own_namespaces" not in item.fixturenames:
            continue
        item.add_marker("lab")
        if not is_selected(item, mode):
            left_out.append(item)
        elif reason := difference(item):
            item.add_marker(pytest.mark.skip(reason=reason))
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


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


_STAGES: list[Lab] = []


@pytest.fixture(scope="session")
def stage(
    request: pytest.FixtureRequest, network: Network, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """A lab for all tests of a variant; use `lab`."""
    variant: Variant = request.param
    directory = tmp_path_factory.mktemp(variant.name)
    with contextlib.ExitStack() as stack:
        if variant.programs is not None:
            stack.enter_context(programs(variant.programs, directory / "bin"))
        stage = Lab(network, DaemonProcess(network.node, directory), variant)
        _STAGES.append(stage)
        yield stage
        _STAGES.remove(stage)
        stage.stop()


@pytest.fixture(autouse=True)
def _no_proxy_of_others(request: pytest.FixtureRequest) -> None:
    """The proxy runs on from scenario to scenario; other tests in the network find none."""
    if "network" in request.fixturenames and "stage" not in request.fixturenames:
        for stage in _STAGES:
            if stage.is_running:
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


@pytest.fixture
def kernel(lab: Lab, family: Family) -> Iterator[Healer]:
    """Nftables mode of one family, whose kernel is alone with connections that fail."""
    lab.stop()
    with healer(lab.network, family) as opened:
        yield opened
