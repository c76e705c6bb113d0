"""The address plan of all tests is in `world.py`."""

import gc
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from kubeproxy import klog

# Deterministic runs: a property that fails here fails everywhere; `make stress` explores.
settings.register_profile(
    "tests",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("tests")


@pytest.fixture(autouse=True)
def _process_as_it_was() -> Iterator[None]:
    """What a daemon or a command changes of its process, the next test does not meet."""
    log, threshold = klog.settings(), gc.get_threshold()
    yield
    klog.configure(log)
    gc.set_threshold(*threshold)
    gc.unfreeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden", action="store_true", help="rewrite the expected parts of cases")
