"""The small charts: scales, kinds, and what they say in words."""

import msgspec
import pytest

from kubeproxy.serve.status.web.charts import LEGEND, sync_chart, traffic
from kubeproxy.serve.status.wire import Sync
from serve.status.web.parsed import Parsed
from serve.status.web.samples import FULL, SYNC


def chart(*history: Sync) -> Parsed:
    return Parsed([sync_chart(history, "Syncs of IPv4")])


def test_no_sync_yet() -> None:
    found = chart()
    assert found.values("aria-label") == ["Syncs of IPv4: no sync yet"]
    assert found.count("path") == 0
    assert found.text == "1 ms10 ms"


def test_a_path_for_each_kind() -> None:
    failed = msgspec.structs.replace(SYNC, outcome="failed", seconds=0.0)
    found = chart(FULL, SYNC, SYNC, failed)
    paths = [attributes for tag, attributes in found.elements if tag == "path"]
    assert [path["class"] for path in paths] == ["sync ok full", "sync ok", "sync failed"]
    assert [path["d"].count("M") for path in paths] == [1, 2, 1]
    assert found.values("aria-label") == [
        "Syncs of IPv4: 4 latest syncs, half of them within 0.8 ms, the longest 430 ms"
    ]


def test_the_latest_hundred_from_the_left_edge_to_the_right() -> None:
    [path] = [
        attributes["d"] for tag, attributes in chart(*[SYNC] * 150).elements if tag == "path"
    ]
    bars = path.split("M")[1:]
    assert len(bars) == 100
    assert bars[0].startswith("45.4 ")
    assert bars[-1].startswith("328.6 ")


@pytest.mark.parametrize(
    ("longest", "top"),
    [(0.002, "10 ms"), (0.05, "100 ms"), (0.9, "1 s"), (5.0, "10 s"), (500.0, "100 s")],
)
def test_the_scale_fits_the_longest(longest: float, top: str) -> None:
    found = chart(msgspec.structs.replace(FULL, seconds=longest))
    assert found.text == f"1 ms{top}"


def test_the_legend() -> None:
    assert Parsed([LEGEND]).text == "what changedfullpartlyfailed"


def test_the_connections_of_now() -> None:
    found = Parsed([traffic("shop/web", 12.5, "On this node.")])
    assert "12.5 new connections per second" in found.text
    assert found.values("data-rate") == found.values("data-chart") == ["shop/web"]
