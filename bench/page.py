"""docs/performance.md and its picture out of docs/performance.json: `python -m bench.page`.

Files of results that are its arguments become docs/performance.json first: all together, or, when
taken in the test kernel, docs/performance-ipvs.json, those of `make bench-instructions`
docs/performance-instructions.json, and those of `make bench-outage` docs/performance-outage.json.
The page says of which commit the figures are, and that they are old when the code has changed
since: `make check` fails until the page of old figures says so, or has new ones.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from bench.figures import METRICS, PATH_METRICS, Metric, Run
from bench.instructions import figures as instructions
from bench.instructions.page import section
from bench.machine import ROOT, Code, Machine, fingerprint
from bench.outage import figures as outages
from bench.outage import page as outage_page
from bench.picture import Bar, Panel, picture
from bench.results import Column, Results, columns, joined, problems, read, sizes, write
from bench.tables import markdown, rows, runs

DOCS = ROOT / "docs"
FIGURES = DOCS / "performance.json"
IPVS_FIGURES = DOCS / "performance-ipvs.json"
INSTRUCTIONS = DOCS / "performance-instructions.json"
OUTAGES = DOCS / "performance-outage.json"
PAGE = DOCS / "performance.md"
PICTURE = DOCS / "performance.svg"
OUTAGE_PICTURE = DOCS / "performance-outage.svg"
METHOD = ROOT / "bench/method.md"
HEALING = ROOT / "bench/healing.md"
FLEET = ROOT / "bench/fleet.md"
LARGE = ROOT / "bench/large.md"
TEST_KERNEL = "UML"
_HOW_TO_READ = (
    "A ratio is the other proxy's figure divided by ours: above 1 is better for us. Figures are "
    "medians of the runs named above them; [performance.json](performance.json) has each run."
)
_TEST_KERNEL = (
    "Not every kernel has ipvs, so these figures are from the test kernel (CONTRIBUTING.md). It "
    "is a process, with one slow processor: compare within the table only. "
    "[performance-ipvs.json](performance-ipvs.json) has each run."
)
DRAWN = ("cold", "change_p50", "rolling", "resident")


def main(arguments: Sequence[str]) -> None:
    """Write page and picture."""
    given: dict[Path, list[Results]] = {}
    whole_daemons = []
    for file in map(Path, arguments):
        if outages.is_in(file):
            outages.write(outages.read(file), OUTAGES)
        elif instructions.is_in(file):
            instructions.write(instructions.read(file), INSTRUCTIONS)
        else:
            whole_daemons.append(read(file))
    for found in whole_daemons:
        in_test_kernel = found.machine.processor == TEST_KERNEL
        given.setdefault(IPVS_FIGURES if in_test_kernel else FIGURES, []).append(found)
    for path, parts in given.items():
        write(joined(parts), path)
    results = read(FIGURES)
    figures = Figures(
        results, read(IPVS_FIGURES), instructions.read(INSTRUCTIONS), outages.read(OUTAGES)
    )
    PAGE.write_text(page(figures, fingerprint(ROOT / "src")))
    PICTURE.write_text(drawn(results))
    OUTAGE_PICTURE.write_text(outage_page.drawn(figures.outages))


class Figures(msgspec.Struct, frozen=True):
    """All that the page shows.

    Of this machine, of the test kernel, counted by an emulator, and what clients notice of
    outages.
    """

    results: Results
    ipvs: Results
    counted: instructions.Results
    outages: outages.Results


def page(figures: Figures, code: str) -> str:
    """The page, for code with this fingerprint."""
    return "\n".join(_lines(figures, code))


def drawn(results: Results) -> str:
    """The picture of the page."""
    metrics = [metric for key in DRAWN for metric in METRICS if metric.key == key]
    return picture([_panel(metric, results.runs) for metric in metrics])


def _panel(metric: Metric, runs: Sequence[Run]) -> Panel:
    bars = [
        Bar(size, column.proxy, column.figures[metric.key])
        for size in sizes(runs)
        for column in columns(runs, size)
        if metric.key in column.figures
    ]
    return Panel(metric, tuple(bars))


def _lines(figures: Figures, code: str) -> Iterator[str]:
    results, ipvs, counted = figures.results, figures.ipvs, figures.counted
    broken = figures.outages
    yield "# Performance\n"
    yield "<!-- Made by `python -m bench.page` from performance.json: edit neither. -->\n"
    yield f"{_of_what(results)} {_HOW_TO_READ}\n"
    yield from _age(results.code, code, "make bench")
    yield "![cold start, one change, rolling update and memory](performance.svg)\n"
    yield "## The whole daemon\n"
    for size in sizes(results.runs):
        yield f"### {size} endpoints\n"
        yield markdown(rows(METRICS, columns(results.runs, size))) + "\n"
        yield from _problems(results.runs, size)
    if results.path:
        yield "## The data path\n"
        yield from _data_path(results.path)
    yield "## The data path of ipvs mode\n"
    yield f"{_of_what(ipvs)} {_TEST_KERNEL}\n"
    yield from _age(ipvs.code, code, "make bench-ipvs")
    yield from _data_path(ipvs.path)
    yield "## Outages\n"
    yield f"{_of_what(broken)}\n"
    yield from _age(broken.code, code, "make bench-outage")
    yield from outage_page.section(broken)
    yield HEALING.read_text()
    yield "## Instructions, by kernel\n"
    yield f"Measured on {counted.date}, {_commit(counted.code)}.\n"
    yield from _age(counted.code, code, "make bench-instructions")
    yield from section(counted)
    yield "## The machine\n"
    yield "\n".join(_machine(results.machine)) + "\n"
    yield LARGE.read_text()
    yield FLEET.read_text()
    yield METHOD.read_text().rstrip() + "\n"
    yield (
        f"These figures were made with `{results.command}`, `{ipvs.command}`, "
        f"`{broken.command}` and `{counted.command}`.\n"
    )


def _of_what(results: Results | outages.Results) -> str:
    versions = "; ".join(f"{name} is {version}" for name, version in results.proxies.items())
    return f"Measured on {results.date}, {_commit(results.code)}. {versions}."


def _commit(code: Code) -> str:
    changed = ", with changes that were not committed" if code.is_modified else ""
    return f"commit `{code.commit}`{changed}"


def _age(measured: Code, code: str, command: str) -> Iterator[str]:
    if code != measured.fingerprint:
        yield (
            "> **These figures are older than the code.** `src/` has changed since they were "
            f"taken. `{command}` takes new ones.\n"
        )


def _data_path(measured: Sequence[Run]) -> Iterator[str]:
    """One table a figure: ways down, sizes across."""
    found = {size: columns(measured, size) for size in sizes(measured)}
    ways = dict.fromkeys(column.proxy for each in found.values() for column in each)
    counts = {size: min((way.count for way in found[size]), default=0) for size in found}
    head = ("", *(f"{size} ({runs(counts[size])})" for size in found))
    for metric in PATH_METRICS:
        yield f"### {metric.label[0].upper()}{metric.label[1:]}, in {metric.unit}\n"
        body = [(way, *(_cell(way, metric, each) for each in found.values())) for way in ways]
        yield markdown([head, *body]) + "\n"
    for size in found:
        yield from _problems(measured, size)


def _problems(measured: Sequence[Run], size: str) -> Iterator[str]:
    for problem in problems(measured, size):
        yield f"{size}: {problem}.\n"


def _cell(way: str, metric: Metric, found: Sequence[Column]) -> str:
    values = [column.figures[metric.key] for column in found if column.proxy == way]
    return f"{values[0]:,.{metric.digits}f}" if values else "-"


def _machine(machine: Machine) -> Iterator[str]:
    limits = "as root of a node has them" if machine.privileged else "limited by net.core.wmem_max"
    yield f"- {machine.cores} cores of {machine.processor}, {machine.memory_gb:.0f} GB of memory"
    yield f"- Linux {machine.kernel}, Python {machine.python}, buffers {limits}"
    yield (
        f"- load before the first run {machine.load:.1f}; on a busy machine, "
        "compare CPU seconds and ratios rather than times"
    )


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (OSError, ValueError) as error:
        sys.exit(str(error))
