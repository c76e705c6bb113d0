"""The table of tracked connections is looked at again and again, and its fill is logged."""

import pytest

from kubeproxy.base.conntracktable import ConntrackUse, Lost
from kubeproxy.base.errors import KernelError
from kubeproxy.engine.conntrack_watch import ConntrackWatch


class Table:
    """A table whose fill the test sets."""

    def __init__(self) -> None:
        self.use: ConntrackUse | None = ConntrackUse(10, 1000)

    def read(self) -> ConntrackUse | None:
        return self.use


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    found = capsys.readouterr().err.splitlines()
    return [line[0] + line.partition("]")[2] for line in found]


def test_a_line_when_it_fills_and_one_when_there_is_room(
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = Table()
    watch = ConntrackWatch(table.read)
    for entries in (10, 900, 1000, 950, 1000, 850, 799, 10):
        table.use = ConntrackUse(entries, 1000)
        watch.look()
    full = "Connection tracking is full: packets of new connections are dropped"
    assert lines(capsys) == [
        'W "Connection tracking is nearly full" connections="900 of 1000"',
        f'E "{full}" connections="1000 of 1000"',
        'I "Connection tracking has room again" connections="799 of 1000"',
    ]


def test_what_was_lost_is_of_the_last_minute() -> None:
    table = Table()
    watch = ConntrackWatch(table.read)
    assert watch.lost == Lost()
    for drops in (100, 103, *(105,) * 5):
        table.use = ConntrackUse(1, 9, 0, drops)
        watch.look()
    assert watch.lost == Lost(0, 5)
    watch.look()
    assert watch.lost == Lost(0, 2)


def test_where_nothing_is_tracked_nothing_is_said() -> None:
    table = Table()
    watch = ConntrackWatch(table.read)
    watch.look()
    table.use = None
    watch.look()
    assert (watch.use(), watch.lost) == (None, Lost())


def test_a_kernel_that_cannot_be_read_is_no_reason_to_end() -> None:
    def read() -> None:
        raise KernelError("cannot read sysctl net.netfilter.nf_conntrack_count")

    assert ConntrackWatch(read).use() is None
