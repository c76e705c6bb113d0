"""All figures of one `make bench`, as they are written to a file and read for the page."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from bench.figures import Run, medians
from bench.machine import Code, Machine


class Results(msgspec.Struct, frozen=True):
    """Everything that is known of one `make bench`.

    `proxies` are the versions of what was measured, by name. Runs of the daemon and of the data
    path stand apart: a size of the latter is a number of services.
    """

    date: str
    command: str
    machine: Machine
    code: Code
    proxies: dict[str, str]
    runs: list[Run]
    path: list[Run]


class Column(msgspec.Struct, frozen=True):
    """The medians of one proxy at one size, and of how many runs."""

    proxy: str
    size: str
    count: int
    figures: dict[str, float]


def columns(runs: Sequence[Run], size: str) -> list[Column]:
    """A column for each proxy that has figures at a size, in the order in which they ran."""
    here = [run for run in runs if run.size == size and run.figures]
    names = dict.fromkeys(run.proxy for run in here)
    return [_column(name, size, (run for run in here if run.proxy == name)) for name in names]


def _column(name: str, size: str, runs: Iterable[Run]) -> Column:
    found = list(runs)
    return Column(name, size, len(found), medians(found))


def sizes(runs: Sequence[Run]) -> list[str]:
    """The sizes that were measured, in order."""
    return list(dict.fromkeys(run.size for run in runs))


def problems(runs: Sequence[Run], size: str) -> list[str]:
    """What kept runs at a size from having figures."""
    return [
        f"{run.proxy}, run {run.number}: no figures, {run.problem}"
        for run in runs
        if run.size == size and run.problem
    ]


def joined(parts: Sequence[Results]) -> Results:
    """One of several that were measured one after the other: the same code, and all their runs."""
    first = parts[0]
    for part in parts:
        if part.code.fingerprint != first.code.fingerprint:
            raise ValueError(
                f"`{part.command}` measured commit {part.code.commit} and `{first.command}` "
                f"commit {first.code.commit}: measure both with the same code"
            )
    return msgspec.structs.replace(
        first,
        command="`, `".join(dict.fromkeys(part.command for part in parts)),
        proxies={name: version for part in parts for name, version in part.proxies.items()},
        runs=[run for part in parts for run in part.runs],
        path=[run for part in parts for run in part.path],
    )


def read(path: Path) -> Results:
    """Results out of a file."""
    return msgspec.json.decode(path.read_bytes(), type=Results)


def write(results: Results, path: Path) -> None:
    """Results into a file, for people to compare."""
    path.parent.mkdir(parents=True, exist_ok=True)
    encoded = msgspec.json.encode(_rounded(results))
    path.write_bytes(msgspec.json.format(encoded, indent=1) + b"\n")


def _rounded(results: Results) -> Results:
    """Without digits that mean nothing."""
    return msgspec.structs.replace(
        results,
        runs=[_rounded_run(run) for run in results.runs],
        path=[_rounded_run(run) for run in results.path],
    )


def _rounded_run(run: Run) -> Run:
    figures = {key: float(f"{value:.4g}") for key, value in run.figures.items()}
    return msgspec.structs.replace(run, figures=figures)
