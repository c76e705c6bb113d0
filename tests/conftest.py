"""The address plan of all tests is in `world.py`."""

import gc
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from kubeproxy.base import klog
from kubeproxy.linux import sysctl
from lab.enter import VARIABLE

MACHINE = Path("/proc/sys")

# Deterministic runs: a property that fails here fails everywhere; `make stress` explores.
settings.register_profile(
    "tests",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("tests")


def pytest_sessionstart(session: pytest.Session) -> None:
    # Scripts start what runs in their background with SIGINT ignored, and all that these start
    # ignores it too; but tests press Ctrl-C.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    plugins = session.config.pluginmanager
    terminal = plugins.get_plugin("terminalreporter")
    if terminal is not None:  # there is none in a worker
        plugins.register(FailuresAsTheyCome(terminal))


class FailuresAsTheyCome:
    """Names each test that fails at once: a run that is ended early has shown what was wrong."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Name a test that failed, or whose fixtures did, with the error."""
        if report.failed:
            errors = (line for line in report.longreprtext.splitlines() if line.startswith("E "))
            error = next(errors, "")[2:].strip()
            self._terminal.write_line(f"\n{report.nodeid} ({report.when}): {error}")


@pytest.fixture(autouse=True)
def _machine_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside of the lab, a test that sets a sysctl of the machine fails instead."""
    if VARIABLE in os.environ:
        return
    write = sysctl.write_sysctl

    def guarded(name: str, value: int, root: Path = MACHINE) -> None:
        assert root != MACHINE, f"a test sets the machine's {name} to {value}"
        write(name, value, root)

    monkeypatch.setattr(sysctl, "write_sysctl", guarded)


@pytest.fixture(autouse=True)
def _process_as_it_was() -> Iterator[None]:
    """What a daemon or a command changes of its process, the next test does not meet."""
    log, threshold = klog.settings(), gc.get_threshold()
    root = logging.getLogger()
    handlers = set(root.handlers)
    yield
    for added in [each for each in root.handlers if each not in handlers]:
        root.removeHandler(added)
    klog.configure(log)
    gc.set_threshold(*threshold)
    gc.unfreeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden", action="store_true", help="rewrite the expected parts of cases")
