"""What healing costs connections that are well: `python -m bench.healing`.

Two rows of a pod, a node and its endpoints stand side by side, alike but for one setting of the
proxy. New connections go through the one and the other in turn, a second each, from the pod (the
packets are forwarded) and from the node itself. Ratios are of neighbours in time, so that what
else the machine does meets both.
"""

import argparse
import contextlib
import os
import random
import signal
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.clusters import SERVICE_PORT, Size, cluster_ip
from bench.load import Connections
from bench.machine import ROOT, this_code, this_machine
from bench.namespaces import enter, is_privileged
from bench.path import DIALLED, ENDPOINTS, Row, failures, proxying, serving
from bench.proxies import Proxy
from bench.tables import plain
from lab.namespaces import Namespace

SERVICES = 1000
WAYS = ("without", "with")
FROM = ("a pod", "the node")


class Round(msgspec.Struct, frozen=True):
    """Connections in a second of time, and in a second of processor time."""

    rate: float
    by_processor: float


class Rounds(msgspec.Struct, frozen=True):
    """What was measured from somewhere: of each round, without and with healing."""

    client: str
    rounds: list[tuple[Round, Round]]


def main() -> None:
    """Measure, and print medians and quartiles."""
    asked = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # what we began ends
    enter()
    machine, code = this_machine(privileged=is_privileged()), this_code()
    print(f"{machine.cores} cores of {machine.processor}, Linux {machine.kernel}")
    print(f"commit {code.commit}, load before {machine.load:.1f}", flush=True)
    found = measure(asked.ours, asked.parts, asked.rounds, asked.seconds, asked.clients)
    print(f"\n{plain(rows(found))}\n\nload at the end {os.getloadavg()[0]:.1f}")


def rows(found: Sequence[Rounds]) -> list[tuple[str, ...]]:
    """Two rows for each place from which connections are made."""
    head = ("", *WAYS, "with by without", "quartiles", "rounds")
    body = []
    for each in found:
        for what, values in (
            ("a second", [(one.rate, other.rate) for one, other in each.rounds]),
            (
                "a second of processor time",
                [(one.by_processor, other.by_processor) for one, other in each.rounds],
            ),
        ):
            ratios = [other / one for one, other in values]
            first, _, third = statistics.quantiles(ratios)
            medians = (statistics.median(way) for way in zip(*values, strict=True))
            body.append(
                (
                    f"from {each.client}: connections in {what}",
                    *(f"{median:,.0f}" for median in medians),
                    f"{statistics.median(ratios):.3f}",
                    f"{first:.3f} to {third:.3f}",
                    str(len(values)),
                )
            )
    return [head, *body]


def measure(binary: str, parts: str, rounds: int, seconds: float, clients: int) -> list[Rounds]:
    """Both proxies at work, and connections through the one and the other in turn."""
    rng = random.Random(1)  # the same services in every run
    addresses = [cluster_ip(rng.randrange(SERVICES)) for _ in range(DIALLED)]
    with contextlib.ExitStack() as stack:
        found = []
        for number, healing in enumerate((None, parts)):
            row = Row(str(number))
            stack.callback(row.close)
            proxy = Proxy(f"{WAYS[number]} healing", binary, section=_section(healing))
            stack.enter_context(proxying(proxy, row, Size(SERVICES, ENDPOINTS), addresses))
            found.append((row, stack.enter_context(serving(row.server, "accept"))))
        measured: dict[str, list[tuple[Round, Round]]] = {client: [] for client in FROM}
        for number in range(rounds + 1):
            for client in FROM:
                pair = {}
                for way in (0, 1) if number % 2 else (1, 0):
                    row, servers = found[way]
                    at = row.client if client == FROM[0] else row.node
                    pair[way] = _round(at, servers, addresses, seconds, clients)
                if number:  # the first round is for warming up
                    measured[client].append((pair[0], pair[1]))
        return [Rounds(client, measured[client]) for client in FROM]


def _section(parts: str | None) -> dict[str, object]:
    return {} if parts is None else {"healing": {"parts": parts}}


def _round(
    at: Namespace, servers: Sequence[int], addresses: Sequence[str], seconds: float, clients: int
) -> Round:
    arguments = (str(seconds), str(SERVICE_PORT), *addresses)
    command = [sys.executable, "-m", "bench.load", "connect", *arguments]
    before = _used(servers)
    with at.entered():
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(clients)]
    said = [process.communicate()[0] for process in processes]
    found = [msgspec.json.decode(each, type=Connections) for each in said]
    if failed := failures(found):
        raise RuntimeError(failed)
    used = _used(servers) - before + sum(each.processor for each in found)
    return Round(
        sum(each.count / each.seconds for each in found),
        sum(each.count for each in found) / used,
    )


def _used(processes: Sequence[int]) -> float:
    """Processor time in seconds, which the scheduler knows to the nanosecond."""
    texts = [Path(f"/proc/{each}/schedstat").read_text() for each in processes]
    return sum(int(text.split()[0]) for text in texts) / 1e9


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench.healing", description=__doc__)
    add = parser.add_argument
    add("--ours", default=str(ROOT / ".venv/bin/kube-proxy"), help="the kube-proxy to measure")
    add("--parts", default="all", help="of healing (%(default)s)")
    add("--rounds", type=int, default=30, help="(%(default)s)")
    add("--seconds", type=float, default=1.0, help="of connections, each time (%(default)s)")
    add("--clients", type=int, default=1, help="at once (%(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        sys.exit(str(error))
