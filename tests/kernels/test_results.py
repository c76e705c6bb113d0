"""What counts as passed, failed and not run, and how the serial line is read."""

import msgspec
import pytest

from kernels.results import (
    BEGIN,
    END,
    NOT_REACHED,
    PARTS,
    Cell,
    Line,
    Run,
    State,
    cell,
    columns,
    exit_code,
    page,
    parse,
    placed,
    reasons,
    render,
    summary,
    table,
)

PASSED, FAILED, NOT_RUN = State
DONE = Line(done=True)


def said(*states: State, part: str = "check", end: State | None = PASSED) -> tuple[Line, ...]:
    """A part with such checks; without an end, it did not come to it."""
    checks = [Line(part, f"c{n}", state, f"d{n}") for n, state in enumerate(states)]
    last = [Line(part, state=end)] if end else []
    return (Line(part), *checks, *last)


def run(*lines: Line, done: bool = True, trouble: str = "") -> Run:
    every = (Line(release="6.1.0"), *lines, *([DONE] * done))
    return Run("bookworm", "6.1", every, trouble=trouble)


GOOD = run(*said(PASSED, PASSED))
BAD = run(*said(PASSED, FAILED))
MISSING = Run("bullseye", missing="it cannot be had: apt knows no package")
HUNG = run(*said(PASSED, end=None), done=False, trouble="it did not come to its end within 9 s")
PANICKED = Run("sid", "7", trouble="it stopped on the way; the console ends with: Kernel panic")
QUIET = run(done=False)
REFUSED = run(Line("check"), Line("check", state=NOT_RUN, detail="too old"))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(GOOD, Cell(PASSED, 2), id="all-checks-passed"),
        pytest.param(BAD, Cell(FAILED, 1, 1, "d1"), id="a-check-failed"),
        pytest.param(
            run(*said(PASSED, end=FAILED)),
            Cell(FAILED, 1, 1),
            id="the-part-failed-beside-its-checks",
        ),
        pytest.param(
            HUNG,
            Cell(FAILED, 1, 1, "it did not come to its end within 9 s"),
            id="a-part-without-an-end-has-failed",
        ),
        pytest.param(
            run(*said(PASSED, end=None)),
            Cell(FAILED, 1, 1, "it did not end"),
            id="no-end-no-reason",
        ),
        pytest.param(REFUSED, Cell(NOT_RUN, reason="too old"), id="refused-with-a-reason"),
        pytest.param(run(*said()), Cell(NOT_RUN, reason="it has no checks"), id="no-checks"),
        pytest.param(QUIET, Cell(NOT_RUN, reason="it was not reached"), id="not-reached"),
        pytest.param(MISSING, Cell(NOT_RUN, reason=MISSING.missing), id="no-kernel"),
    ],
)
def test_how_a_part_ended(given: Run, expected: Cell) -> None:
    assert expected == cell(given, "check")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(GOOD, PASSED, id="good"),
        pytest.param(BAD, FAILED, id="bad"),
        pytest.param(MISSING, NOT_RUN, id="a-kernel-that-cannot-be-had"),
        pytest.param(HUNG, FAILED, id="a-kernel-that-hangs"),
        pytest.param(PANICKED, FAILED, id="a-kernel-that-panics"),
        pytest.param(QUIET, FAILED, id="a-kernel-that-stops-on-the-way"),
        pytest.param(run(*said(PASSED), done=False), FAILED, id="passed-and-then-stopped"),
        pytest.param(REFUSED, NOT_RUN, id="nothing-that-could-be-run"),
    ],
)
def test_how_a_kernel_did(given: Run, expected: State) -> None:
    assert expected is given.state


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        pytest.param([], 1, id="nothing-ran"),
        pytest.param([MISSING], 1, id="only-kernels-that-cannot-be-had"),
        pytest.param([GOOD], 0, id="one-passed"),
        pytest.param([GOOD, MISSING], 0, id="one-passed-and-one-was-not-run"),
        pytest.param([GOOD, BAD], 1, id="one-failed"),
        pytest.param([GOOD, HUNG], 1, id="one-hung"),
        pytest.param([GOOD, PANICKED], 1, id="one-panicked"),
    ],
)
def test_the_exit_code(runs: list[Run], expected: int) -> None:
    assert expected == exit_code(runs)


@pytest.mark.parametrize(
    "line",
    [
        Line(release="6.1.0-56-amd64"),
        Line("check", "nftables is ready", PASSED, "", 1.5),
        Line("check", "a", FAILED, 'ä "quoted"\nand more'),
        DONE,
    ],
)
def test_a_line_is_read_as_it_was_written(line: Line) -> None:
    text = render(line)
    assert "\n" not in text
    assert line == parse(text)


@pytest.mark.parametrize(
    "text",
    ["", "[    1.2] random: crng init done", '@kernels {"part": "ch', "@kernels []", "@kernels "],
)
def test_other_lines_and_halves_of_ours_are_no_results(text: str) -> None:
    assert parse(text) is None


def test_the_summary_counts_what_was_not_run() -> None:
    parts = len(PARTS)
    assert summary([GOOD, BAD, MISSING]) == (
        "kernels: 1 passed, 1 failed, 1 not run; checks: 3 passed, 1 failed; "
        f"parts not run: {parts + 2 * (parts - 1)} of {3 * parts}"
    )


def test_the_table_names_the_kernel_that_ran() -> None:
    head, good, missing = table([GOOD, MISSING])
    assert head == ["kernel", *PARTS, "time", "processor time"]
    assert good[:3] == ["bookworm 6.1.0", "2 passed", "not run"]
    assert missing[:2] == ["bullseye", "not run"]
    assert columns(table([BAD])).splitlines()[1].split() == ["check", "FAILED", "1", "of", "2"]


def test_what_was_not_asked_for_is_not_missing() -> None:
    one = msgspec.structs.replace(GOOD, asked=("check",))
    assert cell(one, "lab") == Cell(NOT_RUN, reason="it was not asked for")
    assert table([one])[1][2] == "not asked for"
    assert reasons([one]) == []
    assert summary([one]).endswith("parts not run: 0 of 1")
    assert one.state is PASSED


def test_what_an_interruption_left_out_was_not_run() -> None:
    interrupted = msgspec.structs.replace(HUNG, trouble="", interrupted=True)
    unreached = msgspec.structs.replace(MISSING, missing=NOT_REACHED, interrupted=True)
    assert interrupted.state is unreached.state is NOT_RUN
    first, *others = reasons([interrupted, unreached])
    assert first == "bookworm: check: not run: it was interrupted after 1 passed checks"
    assert others[0].endswith("lab: not run: it was not reached")
    assert others[1:] == ["bullseye: it was not reached"]


def test_a_check_that_failed_before_an_interruption_has_failed() -> None:
    failed = msgspec.structs.replace(run(*said(FAILED, end=None), done=False), interrupted=True)
    assert cell(failed, "check").state is failed.state is FAILED


def test_parts_with_one_reason_share_a_line() -> None:
    lines = reasons([BAD, MISSING])
    assert lines[0] == "bookworm: check: failed: d1"
    assert lines[1].startswith("bookworm: traffic, repair,")
    assert lines[1].endswith("not run: it was not reached")
    assert lines[2:] == ["bullseye: it cannot be had: apt knows no package"]


def test_the_page_has_the_date_and_the_versions() -> None:
    text = page([GOOD], "2026-01-02", {"kubeproxy": "0.1.0"})
    assert text.startswith("Measured on 2026-01-02, with kubeproxy 0.1.0.\n")
    assert "| check | 2 passed |" in text


def test_what_was_measured_before_is_replaced() -> None:
    once = placed(f"head\n{BEGIN}\nold\n{END}\ntail\n", "new\n")
    assert once == f"head\n{BEGIN}\n\nnew\n\n{END}\ntail\n"
    assert once == placed(once, "new\n")


def test_a_document_without_a_place_is_left_alone() -> None:
    with pytest.raises(ValueError, match="has no lines"):
        placed("head\n", "new")
