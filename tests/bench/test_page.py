import xml.etree.ElementTree as ET
from pathlib import Path

import msgspec
import pytest
from bench.figures import Metric, Run
from bench.instructions import figures as instructions
from bench.machine import ROOT, fingerprint
from bench.outage import figures as outages
from bench.outage import page as outage_page
from bench.page import (
    FIGURES,
    INSTRUCTIONS,
    IPVS_FIGURES,
    OUTAGE_PICTURE,
    OUTAGES,
    PAGE,
    PICTURE,
    Figures,
    drawn,
    page,
)
from bench.picture import Bar, Panel, picture
from bench.results import joined, read, write

ADVICE = "run `.venv/bin/python -m bench.page`"
OLD = "These figures are older than the code."


@pytest.fixture
def figures() -> Figures:
    return Figures(
        read(FIGURES), read(IPVS_FIGURES), instructions.read(INSTRUCTIONS), outages.read(OUTAGES)
    )


def test_the_page_shows_the_figures_and_whether_they_are_old(figures: Figures) -> None:
    assert page(figures, fingerprint(ROOT / "src")) == PAGE.read_text(), ADVICE
    assert drawn(figures.results) == PICTURE.read_text(), ADVICE
    assert outage_page.drawn(figures.outages) == OUTAGE_PICTURE.read_text(), ADVICE


def test_figures_are_old_when_the_code_is_not_what_was_measured(figures: Figures) -> None:
    code = figures.results.code
    same = Figures(
        figures.results,
        msgspec.structs.replace(figures.ipvs, code=code),
        msgspec.structs.replace(figures.counted, code=code),
        msgspec.structs.replace(figures.outages, code=code),
    )
    assert OLD not in page(same, code.fingerprint)
    assert page(same, "another").count(OLD) == 4


def test_results_are_written_as_they_are_read(tmp_path: Path) -> None:
    results = read(FIGURES)
    write(results, tmp_path / "new" / "results.json")
    assert results == read(tmp_path / "new" / "results.json")


def test_sittings_with_the_same_code_are_one() -> None:
    first = read(FIGURES)
    second = msgspec.structs.replace(first, command="make bench SIZES=1x1", runs=first.runs[:1])
    both = joined([first, second])
    assert both.runs == [*first.runs, first.runs[0]]
    assert both.path == [*first.path, *first.path]
    assert both.command == f"{first.command}`, `make bench SIZES=1x1"
    assert joined([first]) == first


def test_figures_of_different_code_are_not_put_together() -> None:
    first = read(FIGURES)
    other = msgspec.structs.replace(first.code, fingerprint="another")
    with pytest.raises(ValueError, match="measure both with the same code"):
        joined([first, msgspec.structs.replace(first, code=other)])


def test_the_page_names_runs_without_figures(figures: Figures) -> None:
    results = figures.results
    late = Run("peer nftables", "8,000 x 30", 9, problem="it took too long")
    runs, path = [*results.runs, late], [*results.path, msgspec.structs.replace(late, size="10")]
    changed = msgspec.structs.replace(results, runs=runs, path=path)
    shown = page(msgspec.structs.replace(figures, results=changed), "code")
    for size in ("8,000 x 30", "10"):
        assert f"{size}: peer nftables, run 9: no figures, it took too long.\n" in shown


def test_code_is_known_by_names_and_content(tmp_path: Path) -> None:
    first = tmp_path / "a.py"
    first.write_text("x")
    seen = {fingerprint(tmp_path)}
    first.write_text("y")
    seen.add(fingerprint(tmp_path))
    first.rename(tmp_path / "b.py")
    seen.add(fingerprint(tmp_path))
    (tmp_path / "notes.txt").write_text("not code")
    assert fingerprint(tmp_path) in seen
    assert len(seen) == 3


def test_bars_are_as_long_as_their_values() -> None:
    bars = (Bar("1 x 1", "ours", 1.0), Bar("1 x 1", "<peer>", 4.0), Bar("2 x 2", "ours", 0.0))
    drawing = ET.fromstring(picture([Panel(Metric("cold", "start", "s", 1), bars)]))
    space = "{http://www.w3.org/2000/svg}"
    rectangles = drawing.findall(f"{space}rect")[3:]  # paper and legend come first
    widths = [float(rectangle.get("width", "")) for rectangle in rectangles]
    assert pytest.approx(4, rel=0.01) == widths[1] / widths[0]
    assert widths[2] == 1.0
    words = [text.text for text in drawing.findall(f"{space}text")]
    assert words == ["ours", "<peer>", "start (s)", "1 x 1", "1.0", "4.0", "2 x 2", "0.0"]


def test_a_picture_without_values_is_a_picture() -> None:
    empty = picture([Panel(Metric("cold", "start", ""), ())])
    assert msgspec.json.encode(empty)
    assert ET.fromstring(empty).tag.endswith("svg")
