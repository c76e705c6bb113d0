"""All figures, each in a process of its own, with the load of the machine before and after."""

import os
import subprocess
import sys
from pathlib import Path

from bench.clusters import Size

SIZES = (Size(1_000, 10), Size(5_000, 10), Size(8_000, 30), Size(20_000, 10))


def run(*command: str) -> None:
    subprocess.run(command, check=True)


def main() -> None:
    cores, load = os.cpu_count(), os.getloadavg()[0]
    kernel = Path("/proc/sys/kernel/osrelease").read_text().strip()
    print(f"{cores} cores, kernel {kernel}, Python {sys.version.split()[0]}, load {load:.1f}")
    run(sys.executable, "-m", "bench.start")
    enter = ("unshare", "--user", "--map-root-user", "--net")
    for size in SIZES:
        numbers = (str(size.services), str(size.endpoints))
        run(sys.executable, "-m", "bench.table", *numbers)
        run(*enter, sys.executable, "-m", "bench.nftables", *numbers)
    run(*enter, sys.executable, "-m", "bench.iptables", "5000", "10", "--idle")
    print(f"load at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
