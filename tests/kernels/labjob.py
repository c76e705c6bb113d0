"""In the guest: tests of the lab, a line for each.

With `--healing`, those of connections to endpoints that fail; with `--fast-path`, those of
connections that leave the rules; with `--all`, all that there are.
"""

import os
from collections.abc import Mapping, Sequence

import msgspec
import pytest

from kernels.forked import Forking
from kernels.job import NFTABLES_SINCE, TOO_OLD, version_of
from kernels.report import Report, not_run, reporting
from kernels.results import State
from lab.launch import launched_by

_STATES = {"passed": State.PASSED, "failed": State.FAILED, "skipped": State.NOT_RUN}
_NONE_MISSING = {**_STATES, "skipped": State.FAILED}


class Selection(msgspec.Struct, frozen=True):
    """Tests of one mode: files, and an expression that chooses among them."""

    mode: str
    files: tuple[str, ...]
    only: str = ""


TELLING = (
    Selection(
        "nftables",
        (
            "test_scenarios.py",
            "test_nftables_intervals.py",
            "test_nftables_listing.py",
            "test_conntrack.py",
        ),
        "moves or takes_no_change or after_a_change or (lists_what and plain)",
    ),
    Selection("ipvs", ("test_scenarios.py", "test_ipvs_draining.py"), "moves or returns"),
)
"""What depends most on the kernel: intervals, listings, conntrack, draining. The field job has
compared every frontend with decide() already."""
HEALING = (
    Selection(
        "nftables",
        (
            "test_healing.py",
            "test_healing_affinity.py",
            "test_healing_errors.py",
            "test_healing_gone.py",
            "test_healing_limits.py",
            "test_healing_switch.py",
        ),
        "test_healing.py or keep_it or unreachable_gets or left_are_reset or nobody_looked "
        "or in_time or three_times or address_of_the_node or refuses_itself or writes_nothing "
        "or comes_and_goes or sctp",
    ),
)
"""All of it is the kernel's doing: time-outs of conntrack, sets that packets fill, resets."""
FAST_PATH = (Selection("nftables", ("test_fast_path.py", "test_fast_path_facets.py")),)
"""Flowtables are the kernel's, and change with it. Every kernel here has them."""
PARTS = {"healing": HEALING, "fast-path": FAST_PATH, "lab": TELLING}
_PLUGINS = ("pytest_asyncio.plugin", "pytest_timeout")
"""Those that the configuration has settings of. Others cost time."""
_BROWSER = "test_page.py"
"""There is none in the guest."""
ALL = tuple(Selection(mode, ("",)) for mode in ("nftables", "iptables", "ipvs"))


class Plugin:
    """Passes results on as they come."""

    def __init__(self, report: Report, mode: str, states: Mapping[str, State]) -> None:
        self._report = report
        self._states = states
        self._mode = mode

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test is over when it was called, or could not be."""
        if report.when != "call" and report.outcome == "passed":
            return
        name = f"{self._mode}: {report.nodeid.removeprefix('tests/lab/')}"
        state = self._states[report.outcome]
        words = str(report.longrepr).strip().splitlines()[-1:] if report.longrepr else []
        detail = " ".join([f"{name}:", *words])[:600] if state is not State.PASSED else ""
        self._report.found(name, state, detail, report.duration)


def options(selection: Selection) -> list[str]:
    """What pytest is started with."""
    files = [f"tests/lab/{file}" for file in selection.files]
    chosen = ["-k", selection.only] if selection.only else []
    # Rewriting asserts would compile every file again in each machine.
    quiet = ["-q", "--assert=plain", "-p", "no:cacheprovider"]
    plugins = [word for name in _PLUGINS for word in ("-p", name)]
    without = f"--ignore=tests/lab/{_BROWSER}"
    return [*quiet, *plugins, without, f"--mode={selection.mode}", *chosen, *files]


def main(arguments: Sequence[str]) -> None:
    """Run the telling ones, those of one part, or all."""
    part = next((part for part in PARTS if f"--{part}" in arguments), "lab")
    selections = ALL if "--all" in arguments else PARTS[part]
    has_nftables = version_of(os.uname().release) >= NFTABLES_SINCE
    if part != "lab" and not has_nftables:
        not_run(part, TOO_OLD)
        return
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    with reporting(part) as report:
        for selection in selections:
            if has_nftables or selection.mode != "nftables":
                _run(selection, report, _NONE_MISSING if part == "fast-path" else _STATES)


def _run(selection: Selection, report: Report, states: Mapping[str, State]) -> None:
    """In a process of its own: each takes namespaces for itself."""
    child = os.fork()
    if not child:
        with launched_by(Forking()):
            os._exit(pytest.main(options(selection), [Plugin(report, selection.mode, states)]))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        files = " ".join(selection.files)
        report.found(files, State.FAILED, f"{selection.mode}: {files}: pytest ended with {code}")
