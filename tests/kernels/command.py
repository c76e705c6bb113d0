"""In the guest: a command of somebody who wants to look around."""

import subprocess
import sys

from kernels.job import COMMAND
from kernels.report import reporting

if __name__ == "__main__":
    with reporting(COMMAND) as report, report.check("it ended with 0"):
        subprocess.run(sys.argv[1:], check=True)
