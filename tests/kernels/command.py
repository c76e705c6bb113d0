"""In the guest: a command of somebody who wants to look around."""

import subprocess
from collections.abc import Sequence

from kernels.job import COMMAND
from kernels.report import reporting


def main(arguments: Sequence[str]) -> None:
    """Run it."""
    with reporting(COMMAND) as report, report.check("it ended with 0"):
        subprocess.run(arguments, check=True)
