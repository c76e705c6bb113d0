"""From the start of the process to the first event handled: empty cluster, a dry run."""

import statistics
import subprocess
import sys
import tempfile
import time


def once(directory: str) -> float:
    """Seconds from the start until the daemon says that it knows the cluster."""
    started = time.perf_counter()
    command = "import sys; from kubeproxy.app.cli import main; sys.exit(main())"
    with subprocess.Popen(
        [sys.executable, "-c", command, "--dry-run", "-v=2", f"--manifests={directory}"],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "Caches populated" in line:
                break
        else:
            raise RuntimeError(f"the daemon ended with code {process.wait()} before it was ready")
        seconds = time.perf_counter() - started
        process.terminate()
        process.stderr.read()
    return seconds


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        runs = [once(directory) for _ in range(7)]
    print(f"start to first event handled: median {statistics.median(runs):.2f} s of {len(runs)}")


if __name__ == "__main__":
    main()
