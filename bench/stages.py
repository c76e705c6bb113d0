"""The stages by themselves, in this process or in one of its own: for profiling.

`python -m bench.stages` runs all of them; each is a module with figures of its own.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from bench.clusters import Size

SIZES = (Size(1_000, 10), Size(5_000, 10), Size(8_000, 30), Size(20_000, 10), Size(100, 1_000))
_ENTER = ("unshare", "--user", "--map-root-user", "--net")


def run(*command: str) -> None:
    subprocess.run(command, check=True)


def main() -> None:
    cores, load = os.cpu_count(), os.getloadavg()[0]
    kernel = Path("/proc/sys/kernel/osrelease").read_text().strip()
    print(f"{cores} cores, kernel {kernel}, Python {sys.version.split()[0]}, load {load:.1f}")
    run(sys.executable, "-m", "bench.start")
    for size in SIZES:
        numbers = (str(size.services), str(size.endpoints))
        run(sys.executable, "-m", "bench.table", *numbers)
        run(*_ENTER, sys.executable, "-m", "bench.nftables", *numbers)
    run(*_ENTER, sys.executable, "-m", "bench.iptables", "5000", "10", "--idle")
    for beside in ("bench.serving", "bench.traffic"):
        run(*_ENTER, sys.executable, "-m", beside, "1000", "10")
    _ipvs()
    print(f"load at the end {os.getloadavg()[0]:.1f}")


def _ipvs() -> None:
    """Figures of ipvs mode, from inside the test kernel: this machine's may have no ip_vs."""
    if shutil.which("linux.uml") is None:
        print(
            "no figures of ipvs mode: that needs the test kernel (apt-get install user-mode-linux)"
        )
        return
    os.environ["PYTHONPATH"] = "tests"
    run(sys.executable, "-m", "uml", "--", sys.executable, "-m", "bench.ipvs", "1000", "10")


if __name__ == "__main__":
    main()
