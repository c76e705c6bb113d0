from pathlib import Path

import pytest
from bench.healing import Round, Rounds
from bench.outage.figures import Failure, Seen
from bench.outage.stage import endpoint_address_6, slice_document_6
from bench.unanswered import Load

from bench import healing, soak, unanswered


def test_ratios_are_of_rounds_and_not_of_medians() -> None:
    rounds = [(Round(100, 10), Round(50, 9)), (Round(10, 10), Round(10, 9))]
    head, rate, used = healing.rows([Rounds("a pod", [*rounds, (Round(20, 10), Round(18, 8))])])
    assert head[1:3] == healing.WAYS
    assert rate[1:4] == ("20", "18", "0.900")
    assert used[0] == "from a pod: connections in a second of processor time"
    assert used[3] == "0.900"


def test_a_load_has_all_sets_of_any() -> None:
    loads = [
        Load("none", 2000.4, 1999.6, 0.0, 0.05, 1.0, {}, 50),
        Load("all", 2000, 2000, 0.181, 0.06, 1.5, {"ip refused": 4096}, 52.4),
    ]
    table = {label: cells for label, *cells in unanswered.rows(loads)}
    assert table[""] == ["none", "all"]
    assert table["second SYNs a second"] == ["2,000", "2,000"]
    assert table["processor time of the proxy"] == ["0.0 %", "18.1 %"]
    assert table["most elements: ip refused"] == ["0", "4,096"]


def test_the_proxy_of_a_soak_has_both_families() -> None:
    node, ranges, service = (document for document in soak.dual_stack())
    for document, path, count in (
        (node, ("status", "addresses"), 3),
        (ranges, ("spec", "cidrs"), 2),
        (service, ("spec", "clusterIPs"), 2),
    ):
        found = document[path[0]]
        assert isinstance(found, dict)
        assert len(found[path[1]]) == count


def test_a_pod_has_an_address_in_both_slices() -> None:
    document = slice_document_6([1, 16])
    endpoints = document["endpoints"]
    assert isinstance(endpoints, list)
    assert document["addressType"] == "IPv6"
    assert [each["addresses"] for each in endpoints] == [["fd00:1::1"], ["fd00:1::10"]]
    assert endpoint_address_6(16) == "fd00:1::10"


@pytest.mark.parametrize("failed", [{}, {Failure.REFUSED: 2}], ids=["well", "refused"])
def test_a_soak_says_what_each_client_met(failed: dict[Failure, int]) -> None:
    seen = Seen(10, failed, [1.2, 3.0], 4, 0, [2.0], 1, 0.0)
    (line,) = soak.report({"from a pod": seen})
    words = "2 of 10 failed (2 refused)" if failed else "0 of 10 failed (none)"
    assert line.startswith(f"from a pod: {words}, 2 late, 1 of them within 1.5 s")


def test_modules_say_how_they_are_run() -> None:
    for module in (healing, soak, unanswered):
        assert module.__file__ is not None
        name = f"bench.{Path(module.__file__).stem}"
        assert f"`python -m {name}`" in (module.__doc__ or "")
