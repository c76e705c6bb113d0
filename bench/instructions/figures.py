"""What was measured, as values: samples in, figures and tables out."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from bench.machine import Code
from bench.tables import Row

PART = "instructions"
"""The part of the job that measures."""
NFTABLES = "nftables"
CONNECTION, REQUEST = "a connection", "a request and its response"
STREAM, PACKETS = "a megabyte", "a megabyte in packets of 1,500 bytes"
ON_THE_WAY = (CONNECTION, REQUEST, STREAM, PACKETS)
"""What packets are measured with; all else are transactions."""
PEER_FILE = "peer"
"""In the guest's directory of the job: another kube-proxy."""


class Asked(msgspec.Struct, frozen=True):
    """Transactions of nftables mode at these numbers of services, and packets on these ways."""

    sizes: tuple[int, ...]
    path_sizes: tuple[int, ...]
    ways: tuple[str, ...]


class Cost(msgspec.Struct, frozen=True):
    """Instructions: the median of so many samples, and the extremes."""

    median: int
    least: int
    most: int
    samples: int


class Figure(msgspec.Struct, frozen=True):
    """What a thing costs on a way, with so many services."""

    what: str
    way: str
    services: int
    cost: Cost


class OnKernel(msgspec.Struct, frozen=True):
    """The figures of one kernel, and why some are missing."""

    name: str
    release: str
    figures: tuple[Figure, ...]
    problem: str = ""


class Results(msgspec.Struct, frozen=True):
    """All figures of one `make bench-instructions`; `peer` is the version of the other proxy."""

    date: str
    command: str
    code: Code
    kernels: tuple[OnKernel, ...]
    peer: str = ""


def cost(samples: Sequence[int]) -> Cost:
    """The cost of which these are samples."""
    ordered = sorted(samples)
    return Cost(ordered[len(ordered) // 2], ordered[0], ordered[-1], len(ordered))


def figures_in(data: Iterable[str]) -> tuple[Figure, ...]:
    """The figures that a guest has printed."""
    return tuple(msgspec.json.decode(each, type=Figure) for each in data if each)


def is_in(path: Path) -> bool:
    """Whether a file has results of this kind."""
    return "kernels" in msgspec.json.decode(path.read_bytes())


def read(path: Path) -> Results:
    """Results out of a file."""
    return msgspec.json.decode(path.read_bytes(), type=Results)


def write(results: Results, path: Path) -> None:
    """Results into a file, for people to compare."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")


def transactions(kernel: OnKernel) -> list[Row]:
    """Kinds of changes down, numbers of services across; empty when there are none."""
    found = [each for each in kernel.figures if each.what not in ON_THE_WAY]
    sizes = list(dict.fromkeys(each.services for each in found))
    kinds = list(dict.fromkeys(each.what for each in found))
    head = ("", *(f"{size:,} services" for size in sizes))
    body = [(kind, *(_cell(found, kind, NFTABLES, size) for size in sizes)) for kind in kinds]
    return [head, *body] if body else []


def packets(kernel: OnKernel) -> list[Row]:
    """Ways down; connections with all numbers of services across, then data with the most.

    Data that follows does not meet the rules of services, however many there are.
    """
    found = [each for each in kernel.figures if each.what in ON_THE_WAY]
    most = max((each.services for each in found), default=0)
    columns = sorted(
        {
            (each.what, each.services)
            for each in found
            if each.what == CONNECTION or each.services == most
        },
        key=lambda column: (ON_THE_WAY.index(column[0]), column[1]),
    )
    ways = list(dict.fromkeys(each.way for each in found))
    head = ("", *(f"{what}, {size:,} services" for what, size in columns))
    body = [(way, *(_cell(found, what, way, size) for what, size in columns)) for way in ways]
    return [head, *body] if body else []


def _cell(found: Sequence[Figure], what: str, way: str, services: int) -> str:
    """In thousands."""
    key = (what, way, services)
    values = [each.cost.median for each in found if (each.what, each.way, each.services) == key]
    return f"{values[0] / 1000:,.1f}" if values else "-"
