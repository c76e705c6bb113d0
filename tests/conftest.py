"""The address plan of all tests is in `world.py`."""

import pytest
from hypothesis import HealthCheck, settings

# Deterministic runs: a property that fails here fails everywhere; `make stress` explores.
settings.register_profile(
    "tests",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden", action="store_true", help="rewrite the expected parts of cases")
