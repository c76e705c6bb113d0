"""Costs in instructions: what is changed, and what becomes of samples."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from bench.instructions.__main__ import parsed
from bench.instructions.cluster import CHANGES, ROUNDS, Changing, ranges
from bench.instructions.figures import (
    CONNECTION,
    NFTABLES,
    PACKETS,
    REQUEST,
    STREAM,
    Cost,
    Figure,
    OnKernel,
    Results,
    cost,
    figures_in,
    is_in,
    packets,
    read,
    transactions,
    write,
)
from bench.instructions.page import section
from bench.machine import Code

from kubeproxy.dataplane.contract import Update
from kubeproxy.table.diff import Changes


def counts(changes: Changes) -> list[tuple[int, int]]:
    """How many endpoints each service port had, and has."""
    found = [(len(before.cluster), len(after.cluster)) for before, after in changes.changed]
    found += [(0, len(entry.cluster)) for entry in changes.added]
    return found + [(len(entry.cluster), 0) for entry in changes.removed]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        pytest.param(Changing.replaced, [(4, 4)], id="an endpoint replaced"),
        pytest.param(Changing.more, [(3, 4)], id="one endpoint more"),
        pytest.param(Changing.less, [(5, 4)], id="one endpoint less"),
        pytest.param(Changing.uncommon, [(32, 33)], id="first use of an endpoint count"),
        pytest.param(Changing.added, [(0, 4)], id="a Service added"),
        pytest.param(Changing.source_range, [(4, 4)], id="one of 1,000 source ranges replaced"),
    ],
)
def test_a_change_is_of_one_service(
    make: Callable[[Changing, int], Update], expected: list[tuple[int, int]]
) -> None:
    assert counts(make(Changing(4 * ROUNDS), 1).changes) == expected


def test_a_service_that_was_added_is_removed() -> None:
    cluster = Changing(4 * ROUNDS)
    cluster.added(1)
    assert counts(cluster.removed(1).changes) == [(4, 0)]


def test_every_change_can_be_made_in_a_row() -> None:
    cluster = Changing(4 * ROUNDS)
    for change in CHANGES:
        for number in range(change.rounds):
            assert len(counts(change.make(cluster, number).changes)) == 1, change.what


def test_no_other_service_has_an_uncommon_count() -> None:
    cluster = Changing(4 * ROUNDS)
    before = [len(entry.cluster) for entry in cluster.builder.table.entries.values()]
    ((old, new),) = counts(cluster.uncommon(0).changes)
    assert (before.count(old), before.count(new)) == (2, 0)


def test_source_ranges_do_not_touch_and_one_changes() -> None:
    first, second = set(ranges(0)), set(ranges(1))
    assert (len(first), len(first - second), len(second - first)) == (1000, 1, 1)
    numbers = sorted(int(each.split(".")[1]) * 256 + int(each.split(".")[2]) for each in first)
    assert all(later - earlier > 1 for earlier, later in pairwise(numbers))


def test_a_cost_is_a_sample_that_was_seen() -> None:
    assert cost([5, 1, 900, 4]) == Cost(median=5, least=1, most=900, samples=4)


def figure(what: str, way: str, services: int, instructions: int) -> Figure:
    return Figure(what, way, services, Cost(instructions, 0, 0, 1))


KERNEL = OnKernel(
    "bookworm",
    "6.1.0",
    (
        figure("a Service added", NFTABLES, 1000, 1_234_567),
        figure("a Service added", NFTABLES, 5000, 2_000),
        figure("a Service removed", NFTABLES, 1000, 90),
        figure(PACKETS, "no proxy", 500, 7000),
        figure(STREAM, "no proxy", 500, 5000),
        figure(REQUEST, "no proxy", 10, 200),
        figure(REQUEST, "no proxy", 500, 300),
        figure(CONNECTION, "no proxy", 500, 1100),
        figure(CONNECTION, "no proxy", 10, 1000),
        figure(CONNECTION, "ipvs", 10, 2000),
    ),
)
RESULTS = Results("2026-01-01", "make it", Code("c", "f", is_modified=False), (KERNEL,))


def test_changes_stand_below_each_other_and_sizes_beside() -> None:
    assert transactions(KERNEL) == [
        ("", "1,000 services", "5,000 services"),
        ("a Service added", "1,234.6", "2.0"),
        ("a Service removed", "0.1", "-"),
    ]


def test_ways_stand_below_each_other_and_data_with_the_most_services() -> None:
    assert packets(KERNEL) == [
        (
            "",
            f"{CONNECTION}, 10 services",
            f"{CONNECTION}, 500 services",
            f"{REQUEST}, 500 services",
            f"{STREAM}, 500 services",
            f"{PACKETS}, 500 services",
        ),
        ("no proxy", "1.0", "1.1", "0.3", "5.0", "7.0"),
        ("ipvs", "2.0", "-", "-", "-", "-"),
    ]


def test_a_kernel_without_figures_has_a_reason_and_no_table() -> None:
    old = OnKernel("bullseye", "", (), "it cannot be had")
    assert transactions(old) == packets(old) == []
    shown = "\n".join(section(msgspec.structs.replace(RESULTS, kernels=(old,))))
    assert "### Linux unknown (bullseye)\n" in shown
    assert "Figures are missing: it cannot be had.\n" in shown
    assert "|" not in shown


def test_the_section_has_two_tables_a_kernel() -> None:
    shown = "\n".join(section(RESULTS))
    assert shown.count("| --- |") == 2
    assert "| a Service added | 1,234.6 | 2.0 |" in shown


def test_the_section_says_which_peer_it_was() -> None:
    assert "peer" not in "\n".join(section(RESULTS))
    shown = "\n".join(section(msgspec.structs.replace(RESULTS, peer="v1.38.0")))
    assert "in the modes of ours, and of the peer, v1.38.0:\n" in shown


def test_lines_without_data_are_no_figures() -> None:
    given = KERNEL.figures[0]
    assert figures_in(["", msgspec.json.encode(given).decode()]) == (given,)


def test_results_are_known_by_their_content(tmp_path: Path) -> None:
    file = tmp_path / "new" / "instructions.json"
    write(RESULTS, file)
    assert is_in(file)
    assert read(file) == RESULTS
    file.write_text('{"runs": []}')
    assert not is_in(file)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        pytest.param(["--ways", "ipvs,carrier pigeon"], "no way carrier pigeon", id="unknown"),
        pytest.param(["--ways", "peer nftables"], "need --peer", id="a-peer-that-is-not-there"),
    ],
)
def test_a_way_that_cannot_be_taken_is_refused(
    given: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parsed(given)
    assert words in capsys.readouterr().err


def test_a_peer_has_ways_of_its_own() -> None:
    ours = parsed([]).ways
    assert "peer nftables" not in ours
    assert set(ours) < set(parsed(["--peer", "kube-proxy"]).ways)
