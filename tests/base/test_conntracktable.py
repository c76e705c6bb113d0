"""How full the table of tracked connections is."""

import pytest

from kubeproxy.base.conntracktable import ConntrackUse, Level, Lost, column_sums, lost_between


@pytest.mark.parametrize(
    ("entries", "limit", "fill", "level"),
    [
        pytest.param(0, 1000, 0.0, Level.ROOM, id="empty"),
        pytest.param(899, 1000, 0.899, Level.ROOM, id="room"),
        pytest.param(900, 1000, 0.9, Level.NEARLY_FULL, id="nine-tenths"),
        pytest.param(1000, 1000, 1.0, Level.FULL, id="full"),
        pytest.param(1003, 1000, 1.003, Level.FULL, id="the-limit-was-lowered"),
        pytest.param(5, 0, 0.0, Level.ROOM, id="without-a-limit"),
    ],
)
def test_the_fill(entries: int, limit: int, fill: float, level: Level) -> None:
    use = ConntrackUse(entries, limit)
    assert (use.fill, use.level) == (fill, level)


def test_what_was_lost_is_the_difference() -> None:
    assert lost_between(ConntrackUse(1, 9, 3, 5), ConntrackUse(1, 9, 4, 12)) == Lost(1, 7)


def test_the_rows_of_processors_are_summed_up() -> None:
    text = "entries  clashres drop\n00000003  00000000 0000000a\n00000003  00000001 00000010\n"
    assert column_sums(text) == {"entries": 6, "clashres": 1, "drop": 26}
    assert column_sums("") == {}
