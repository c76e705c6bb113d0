"""Figures of whole daemons and of the data path: `make bench`, or `python -m bench --help`.

Runs of ours and of the peer take turns, so that both meet the same machine. The figures go to
standard output and, run by run, into a file; `python -m bench.page` makes the page of it.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec

from bench import figures, path, phases, results, tables
from bench.clusters import Size, parse_size
from bench.figures import Run
from bench.machine import ROOT, this_code, this_machine, version_of, wait_calm
from bench.namespaces import enter, is_privileged
from bench.path import Limit
from bench.phases import Effort
from bench.proxies import Proxy
from bench.results import Results
from kubeproxy.linux.tools import RuleKind
from lab.xtables import programs

OURS = "kubeproxy"
PEER = "peer"
SIZES = "1000x10,5000x10,8000x30,20000x10,100x1000"
SERVICES = "10,1000,20000"
QUICK = Effort(changes=50, counted=3, rest_seconds=5)


def main() -> None:
    """Measure as the command line says."""
    asked = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # what we began ends
    enter()
    with _legacy_tools():
        _measure(asked)


@contextlib.contextmanager
def _legacy_tools() -> Iterator[None]:
    """Inside, iptables is the legacy kind: the other needs minutes to load 20,000 services."""
    with tempfile.TemporaryDirectory() as place, programs(RuleKind.LEGACY, Path(place) / "bin"):
        yield


def _measure(asked: argparse.Namespace) -> None:
    """Measure, print, write."""
    proxies = [Proxy(OURS, asked.ours, mode) for mode in asked.modes]
    if asked.peer:
        proxies += [Proxy(PEER, asked.peer, mode) for mode in asked.modes]
    found = Results(
        date=time.strftime("%Y-%m-%d", time.gmtime()),
        command=_command(asked),
        machine=this_machine(privileged=is_privileged()),
        code=this_code(),
        proxies={proxy.name: version_of(proxy.binary) for proxy in proxies},
        runs=[],
        path=[],
    )
    print(f"{found.machine}\n{found.code}\n{found.proxies}", flush=True)
    for run in _daemons(asked, [each for each in proxies if each.mode == "nftables"]):
        found.runs.append(run)
        results.write(found, asked.output)
    for run in _paths(asked, [Limit(), *proxies]):
        found.path.append(run)
        results.write(found, asked.output)
    print(f"load at the end {os.getloadavg()[0]:.1f}; each run is in {asked.output}")


def _daemons(asked: argparse.Namespace, proxies: list[Proxy]) -> Iterator[Run]:
    effort = QUICK if asked.quick else Effort()
    for proxy in proxies if asked.sizes else []:
        phases.warm_up(proxy)
    for size in asked.sizes:
        found: list[Run] = []
        for number in range(1, asked.runs + 1):
            for proxy in proxies:
                measure = partial(phases.measure, proxy, size, effort, seed=number)
                found.append(_tried(measure, Run(proxy.title, str(size), number)))
                yield found[-1]
        shown = tables.rows(figures.METRICS, results.columns(found, str(size)))
        print(f"\n{size} endpoints\n{tables.plain(shown)}\n", flush=True)


def _paths(asked: argparse.Namespace, ways: list[Proxy | Limit]) -> Iterator[Run]:
    seconds = 1.0 if asked.quick else 5.0
    for services in asked.services:
        found: list[Run] = []
        size = f"{services:,} services"
        for number in range(1, asked.runs + 1):
            for way in ways:
                measure = partial(path.measure, way, services, seconds, seed=number)
                found.append(_tried(measure, Run(way.title, size, number)))
                yield found[-1]
        shown = tables.rows(figures.PATH_METRICS, results.columns(found, size))
        print(f"\n{size}, {path.ENDPOINTS} endpoints each\n{tables.plain(shown)}\n", flush=True)


def _tried(measure: Callable[[], dict[str, float]], run: Run) -> Run:
    """The run with its figures, or with what went wrong: others may do better."""
    waited = wait_calm()
    load, began = os.getloadavg()[0], time.monotonic()
    title = f"run {run.number}: {run.proxy} at {run.size} (load {load:.1f}, waited {waited:.0f} s)"
    try:
        measured = measure()
    except (TimeoutError, RuntimeError) as error:
        print(f"{title}: no figures: {error}", flush=True)
        return msgspec.structs.replace(run, load=load, problem=str(error))
    shown = ", ".join(f"{key} {value:.4g}" for key, value in measured.items())
    print(f"{title}, {time.monotonic() - began:.0f} s: {shown}", flush=True)
    return msgspec.structs.replace(run, load=load, figures=measured)


def _command(asked: argparse.Namespace) -> str:
    """What to type to have the same measured elsewhere."""
    words = {
        "PEER": "/path/to/kube-proxy" if asked.peer else "",
        "SIZES": ",".join(f"{size.services}x{size.endpoints}" for size in asked.sizes),
        "SERVICES": ",".join(map(str, asked.services)),
        "MODES": ",".join(asked.modes),
        "RUNS": str(asked.runs),
        "QUICK": "1" if asked.quick else "",
    }
    unset = {"PEER", "QUICK"}
    in_test_kernel = asked.modes == ["ipvs"]
    implied = {"SIZES", "MODES"} if in_test_kernel else set()
    given = (
        f"{key}={value}"
        for key, value in words.items()
        if key not in implied and (value or key not in unset)
    )
    return " ".join(("make bench-ipvs" if in_test_kernel else "make bench", *given))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    add = parser.add_argument
    add("--ours", default=str(ROOT / ".venv/bin/kube-proxy"), help="the kube-proxy to measure")
    add("--peer", default="", help="another kube-proxy with upstream's flags, to compare with")
    add("--sizes", type=_sizes, default=SIZES, help="services x endpoints, with commas between")
    add("--services", type=_numbers, default=SERVICES, help="sizes for the data path")
    add("--modes", type=_words, default="nftables,iptables", help="modes for the data path")
    add("--runs", type=int, default=3, help="how often; the median is shown")
    add("--quick", action="store_true", help="fewer changes and short pauses")
    output = ROOT / "bench/results/latest.json"
    add("--output", type=Path, default=output, help="where the figures of each run go")
    return parser.parse_args()


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _sizes(text: str) -> list[Size]:
    return [parse_size(word) for word in _words(text)]


def _numbers(text: str) -> list[int]:
    return [int(word) for word in _words(text)]


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        sys.exit(str(error))
