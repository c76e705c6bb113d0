"""Runs the proxy in stock kernels of Debian: `PYTHONPATH=tests python -m kernels`."""

import argparse
import datetime as dt
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from kernels.boot import Machine
from kernels.debian import DEFAULT, NotAvailable
from kernels.job import COMMAND, Job, step_of, steps_for
from kernels.results import (
    PARTS,
    Run,
    State,
    cell,
    columns,
    exit_code,
    page,
    placed,
    reasons,
    summary,
    table,
)
from kernels.session import INTERRUPTED, default_cache, processor_seconds, session, show
from kernels.tools import Toolbox
from kubeproxy.base.version import VERSION


def parsed(given: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser("python -m kernels", description=__doc__)
    parser.add_argument("--cache", type=Path, default=default_cache(), help="(%(default)s)")
    parser.add_argument("--kernels", default=",".join(DEFAULT), help="suites (%(default)s)")
    parser.add_argument("--parts", default=",".join(PARTS), help="of the table (%(default)s)")
    parser.add_argument("--at-once", type=int, default=2, help="machines (%(default)s)")
    parser.add_argument("--seconds", type=float, default=900.0, help="for each (%(default)s)")
    parser.add_argument("--memory", type=int, default=1024, help="megabytes (%(default)s)")
    parser.add_argument("--whole-lab", action="store_true", help="all tests of the lab: hours")
    parser.add_argument("--page", type=Path, help="a document to write what was measured into")
    parser.add_argument("command", nargs="*", help="to run in each instead, after --")
    arguments = parser.parse_args(given)
    unknown = set(arguments.parts.split(",")) - set(PARTS)
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    return arguments


def versions(runs: Sequence[Run], tools: Toolbox) -> dict[str, str]:
    """What the results depend on besides the kernels."""
    printed = subprocess.run(
        [*tools.emulator(), "--version"], capture_output=True, text=True, check=True
    ).stdout
    number = re.search(r"version (\S+)", printed)
    guest = next((run.versions for run in runs if run.versions), {})
    python = ".".join(map(str, sys.version_info[:3]))
    emulator = number[1] if number else "unknown"
    return {"kubeproxy": VERSION, "Python": python, "QEMU": emulator, **guest}


def main(given: Sequence[str]) -> int:
    """Run, print the table, and end with 0 only if all that ran passed."""
    arguments = parsed(given)
    steps = steps_for(arguments.parts.split(","), whole_lab=arguments.whole_lab)
    if arguments.command:
        steps = (step_of(arguments.command, arguments.seconds),)
    machine = Machine(arguments.memory, arguments.seconds)
    names = arguments.kernels.split(",")
    try:
        with session(arguments.cache, Job(steps), machine) as opened:
            runs = opened.run_all(names, arguments.at_once)
            about = versions(runs, opened.tools)
    except NotAvailable as error:
        show(f"No kernel could be run: {error}")
        return 1
    except KeyboardInterrupt:  # before there was a machine
        return INTERRUPTED
    if arguments.command:
        for run in runs:
            show(f"\n--- {run.name} {run.release} {run.missing or run.trouble}\n{run.console}")
        return 0 if all(cell(run, COMMAND).state is State.PASSED for run in runs) else 1
    show(f"\n{columns(table(runs))}\n")
    for line in reasons(runs):
        show(line)
    show(f"{summary(runs)}; processor time: {processor_seconds():.0f} s")
    if any(run.interrupted for run in runs):
        return INTERRUPTED
    if arguments.page:
        date = dt.datetime.now(dt.UTC).date().isoformat()
        measured = page(runs, date, about)
        arguments.page.write_text(placed(arguments.page.read_text(), measured))
    return exit_code(runs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
