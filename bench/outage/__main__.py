"""What clients notice of outages: `make bench-outage`, or `python -m bench.outage --help`.

Variants of the proxy take turns, scenario by scenario. The figures go into a file; beside it are
the same as Markdown, and a directory with the proxies' logs.
"""

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from bench.figures import Run
from bench.machine import ROOT, this_code, this_machine, version_of
from bench.namespaces import enter, is_privileged
from bench.outage.figures import QUICK, Effort, Results, Seen, figures, size, write
from bench.outage.page import page, rows
from bench.outage.scenarios import SCENARIOS, measure
from bench.proxies import Proxy
from bench.tables import plain


def variants(ours: str, peer: str) -> list[Proxy]:
    """The columns of the table; each is a proxy with settings of its own."""
    healing: dict[str, object] = {"healing": {"parts": "all"}}
    found = [Proxy("kubeproxy", ours), Proxy("kubeproxy healing", ours, section=healing)]
    return [*found, Proxy("peer", peer)] if peer else found


def main() -> None:
    """Measure as the command line says, print, write."""
    asked = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # what we began ends
    enter()
    proxies = variants(asked.ours, asked.peer)
    results = Results(
        date=time.strftime("%Y-%m-%d", time.gmtime()),
        command=_command(asked),
        machine=this_machine(privileged=is_privileged()),
        code=this_code(),
        proxies={proxy.name: version_of(proxy.binary) for proxy in proxies},
        effort=QUICK if asked.quick else Effort(),
        outages=[],
    )
    for run in _runs(asked, proxies, results.effort):
        results.outages.append(run)
        write(results, asked.output)
    asked.output.with_suffix(".md").write_text(page(results))
    print(f"\n{plain(rows(results.outages))}\n\nload at the end {os.getloadavg()[0]:.1f}")
    print(f"the longest time by which a connection began late: {_late(results.outages):.3f} s")
    print(f"all figures are in {asked.output}")


def _runs(asked: argparse.Namespace, proxies: Sequence[Proxy], effort: Effort) -> Iterator[Run]:
    logs: Path = asked.output.with_suffix(".logs")
    logs.mkdir(parents=True, exist_ok=True)
    for number in range(1, asked.runs + 1):
        for scenario in asked.scenarios:
            for proxy in proxies:
                run = Run(proxy.title, scenario, number, load=os.getloadavg()[0])
                log = logs / f"{scenario}, {proxy.title}, {number}.log".replace(" ", "-")
                yield from _tried(run, partial(measure, SCENARIOS[scenario], proxy, effort, log))


def _tried(run: Run, measured: Callable[[], Coroutine[Any, Any, dict[str, Seen]]]) -> list[Run]:
    """The run for each client, or once with what went wrong."""
    began = time.monotonic()
    title = f"run {run.number}: {run.size}, {run.proxy} (load {run.load:.1f})"
    try:
        seen = asyncio.run(measured())
    except (TimeoutError, RuntimeError) as error:
        print(f"{title}: no figures: {error}", flush=True)
        return [replace(run, problem=str(error))]
    failed = sum(sum(each.failed.values()) for each in seen.values())
    connects = sum(each.connects for each in seen.values())
    seconds = time.monotonic() - began
    print(f"{title}, {seconds:.0f} s: {failed:,} of {connects:,} failed", flush=True)
    return [
        replace(run, size=size(run.size, client), figures=figures(each))
        for client, each in seen.items()
    ]


def _late(runs: Sequence[Run]) -> float:
    return max((run.figures.get("late", 0.0) for run in runs), default=0.0)


def _command(asked: argparse.Namespace) -> str:
    """What to type to have the same measured elsewhere."""
    words = {
        "PEER": "/path/to/kube-proxy" if asked.peer else "",
        "RUNS": str(asked.runs) if asked.runs > 1 else "",
        "QUICK": "1" if asked.quick else "",
    }
    return " ".join(
        ("make bench-outage", *(f"{key}={word}" for key, word in words.items() if word))
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.outage", description=__doc__)
    add = parser.add_argument
    add("--ours", default=str(ROOT / ".venv/bin/kube-proxy"), help="the kube-proxy to measure")
    add("--peer", default="", help="another kube-proxy with upstream's flags, to compare with")
    add("--runs", type=int, default=1, help="how often; the median is shown")
    add("--quick", action="store_true", help="everything is over sooner")
    add(
        "--scenarios",
        type=_scenarios,
        default=list(SCENARIOS),
        help=f"some of: {', '.join(SCENARIOS)}; with commas between",
    )
    output = ROOT / "bench/results/outage.json"
    add("--output", type=Path, default=output, help="where the figures go")
    return parser.parse_args()


def _scenarios(text: str) -> list[str]:
    words = [word.strip() for word in text.split(",")]
    unknown = [word for word in words if word not in SCENARIOS]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no scenario {', '.join(unknown)}")
    return words


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        sys.exit(str(error))
