"""Runs a command in the test kernel: `PYTHONPATH=tests python -m uml -- pytest tests/lab`."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.namespaces import adopt_orphans
from uml.boot import Machine, NotInstalled, boot
from uml.job import Job


def main(given: Sequence[str]) -> int | str:
    """Boot, run the command, and end with its exit code; a text is why there is none."""
    parser = argparse.ArgumentParser("python -m uml", description=__doc__)
    parser.add_argument("--seconds", type=float, default=Machine().seconds, help="time limit")
    parser.add_argument("--memory", type=int, default=Machine().memory, help="megabytes")
    parser.add_argument("command", nargs="+", help="what to run, after --")
    arguments = parser.parse_args(given)
    adopt_orphans()  # the guest's processes, when their kernel dies
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    job = Job(tuple(arguments.command), str(Path.cwd()), dict(os.environ))
    try:
        return boot(job, Machine(arguments.memory, arguments.seconds))
    except NotInstalled as error:
        return str(error)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
