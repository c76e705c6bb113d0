"""What happened on each kernel: lines from the guest in, a table and an exit code out.

Nothing passes by silence: a part counts as passed only when it said how it ended, and a kernel
that did not boot, or that stopped on the way, has failed.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

import msgspec

PARTS = (
    "check",
    "traffic",
    "repair",
    "restart",
    "iptables legacy",
    "iptables nft",
    "ipvs legacy",
    "ipvs nft",
    "take-over",
    "healing",
    "fast-path",
    "lab",
)
"""The columns of the table."""
BEGIN, END = "<!-- measured: make kernels writes this -->", "<!-- end of what was measured -->"
"""Between these lines of a document is what was measured last."""
MARK = "@kernels "
"""How a line of ours begins; the serial line may carry others."""
NOT_ASKED, NOT_REACHED = "it was not asked for", "it was not reached"


class State(Enum):
    """How a check, a part or a kernel ended."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not run"


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the guest says: a part began or ended, a check of it ended, or all is done.

    The first line has the `release` of the kernel, and the versions of the programs. `data` is
    JSON for whoever wrote the step.
    """

    part: str = ""
    check: str = ""
    state: State | None = None
    detail: str = ""
    seconds: float = 0.0
    release: str = ""
    versions: dict[str, str] = {}
    done: bool = False
    data: str = ""


class Run(msgspec.Struct, frozen=True):
    """One kernel: its package's version, what it said, and what went wrong besides.

    `asked` are the parts that it should fill. `missing` says why it could not be tried, `trouble`
    why it did not come to its end. The `console` has what the kernel and the programs printed.
    Of the `seconds`, the processor was at work in `processor`.
    """

    name: str
    version: str = ""
    lines: tuple[Line, ...] = ()
    missing: str = ""
    trouble: str = ""
    seconds: float = 0.0
    console: str = ""
    asked: tuple[str, ...] = PARTS
    processor: float = 0.0
    interrupted: bool = False

    @property
    def release(self) -> str:
        """The kernel's own word for itself."""
        return next((line.release for line in self.lines if line.release), "")

    @property
    def versions(self) -> dict[str, str]:
        """The programs in the guest."""
        return next((line.versions for line in self.lines if line.versions), {})

    @property
    def state(self) -> State:
        """How the kernel did."""
        if self.missing:
            return State.NOT_RUN
        cells = [cell(self, part).state for part in self.asked]
        if self.trouble or State.FAILED in cells:
            return State.FAILED
        if not any(line.done for line in self.lines):
            return State.NOT_RUN if self.interrupted else State.FAILED
        return State.PASSED if State.PASSED in cells else State.NOT_RUN


class Cell(msgspec.Struct, frozen=True):
    """One part on one kernel."""

    state: State
    passed: int = 0
    failed: int = 0
    reason: str = ""

    def __str__(self) -> str:
        if self.state is State.FAILED:
            return f"FAILED {self.failed} of {self.passed + self.failed}"
        return f"{self.passed} passed" if self.state is State.PASSED else "not run"


def parse(text: str) -> Line | None:
    """A line of the guest; None for any other, and for one that was cut."""
    if not text.startswith(MARK):
        return None
    try:
        return msgspec.json.decode(text[len(MARK) :], type=Line)
    except msgspec.MsgspecError:
        return None


def render(line: Line) -> str:
    """The text that `parse` reads."""
    return MARK + msgspec.json.encode(line).decode()


def cell(run: Run, part: str) -> Cell:
    """How a part ended on a kernel."""
    lines = [line for line in run.lines if line.part == part]
    checks = [line for line in lines if line.check]
    passed = sum(line.state is State.PASSED for line in checks)
    failed = sum(line.state is State.FAILED for line in checks)
    ends = [line for line in lines if not line.check and line.state is not None]
    if not lines:
        return Cell(State.NOT_RUN, reason=_never_begun(run, part))
    if not ends:
        if run.interrupted and not failed:
            return Cell(State.NOT_RUN, reason=f"it was interrupted after {passed} passed checks")
        return Cell(State.FAILED, passed, failed + 1, run.trouble or "it did not end")
    if failed or ends[-1].state is State.FAILED:
        reasons = [line.detail for line in (*checks, *ends) if line.state is State.FAILED]
        return Cell(State.FAILED, passed, max(failed, 1), "; ".join(filter(None, reasons)))
    if not passed:
        reasons = [line.detail for line in (*ends, *checks)]
        return Cell(State.NOT_RUN, reason=next(filter(None, reasons), "it has no checks"))
    return Cell(State.PASSED, passed)


def _never_begun(run: Run, part: str) -> str:
    if part not in run.asked:
        return NOT_ASKED
    return run.missing or run.trouble or NOT_REACHED


def exit_code(runs: Iterable[Run]) -> int:
    """0 only if all that ran passed, and something ran."""
    states = [run.state for run in runs]
    return 0 if State.PASSED in states and State.FAILED not in states else 1


def summary(runs: Sequence[Run]) -> str:
    """One sentence about all kernels."""
    states = [run.state for run in runs]
    cells = [cell(run, part) for run in runs for part in run.asked]
    counts = [f"{states.count(state)} {state.value}" for state in State]
    parts = sum(each.state is State.NOT_RUN for each in cells)
    checks = sum(each.passed for each in cells)
    wrong = sum(each.failed for each in cells)
    return (
        f"kernels: {', '.join(counts)}; checks: {checks} passed, {wrong} failed; "
        f"parts not run: {parts} of {len(cells)}"
    )


def table(runs: Sequence[Run]) -> list[list[str]]:
    """The head and a row for each kernel."""
    rows = [["kernel", *PARTS, "time", "processor time"]]
    for run in runs:
        name = f"{run.name} {run.release or run.version}".strip()
        times = (f"{run.seconds:.0f} s", f"{run.processor:.0f} s")
        rows.append([name, *(_shown(run, part) for part in PARTS), *times])
    return rows


def _shown(run: Run, part: str) -> str:
    return str(cell(run, part)) if part in run.asked else "not asked for"


def reasons(runs: Iterable[Run]) -> list[str]:
    """Why something failed or was not run, a line each; parts with the same reason share one.

    That something was not asked for is no reason: the table says it.
    """
    lines = []
    for run in runs:
        if run.missing or run.trouble:
            lines.append(f"{run.name}: {run.missing or run.trouble}")
        by_reason: dict[tuple[State, str], list[str]] = {}
        for part in run.asked:
            found = cell(run, part)
            if found.reason and found.reason not in (run.missing, run.trouble):
                by_reason.setdefault((found.state, found.reason), []).append(part)
        for (state, reason), parts in by_reason.items():
            lines.append(f"{run.name}: {', '.join(parts)}: {state.value}: {reason}")
    return lines


def columns(rows: Sequence[Sequence[str]]) -> str:
    """The table for a terminal: turned, because it has more parts than kernels."""
    turned = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in zip(*turned, strict=True)]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in turned
    )


def page(runs: Sequence[Run], date: str, versions: Mapping[str, str]) -> str:
    """The measured part of docs/kernels.md."""
    turned = list(zip(*table(runs), strict=True))
    head, *rows = turned
    lines = [
        f"Measured on {date}, with {', '.join(f'{k} {v}' for k, v in versions.items())}.",
        "",
        "| " + " | ".join(head) + " |",
        "|---" * len(head) + "|",
        *("| " + " | ".join(row) + " |" for row in rows),
        "",
        summary(runs) + ".",
    ]
    why = reasons(runs)
    if why:
        lines += ["", *(f"- {line}" for line in why)]
    return "\n".join(lines) + "\n"


def placed(document: str, measured: str) -> str:
    """The document with what was measured now."""
    before, _, rest = document.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"the document has no lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{measured}\n{END}{after}"
