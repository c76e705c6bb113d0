import contextlib
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import pytest
from bench.load import Connections
from bench.losses import Losses, listen_drops, not_tracked
from bench.path import Row

from bench import path


def test_a_way_on_which_connections_fail_has_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    def dial(_row: Row, _role: str, _asked: Sequence[str], clients: int) -> list[Connections]:
        return [Connections(9, 1.0, [50.0] * 9, failed={"timed out": 1})] * clients

    monkeypatch.setattr(path, "_dial", dial)
    monkeypatch.setattr(path, "serving", lambda *_: contextlib.nullcontext())
    seen = iter([Losses(accept=1, tracked=0), Losses(accept=5, tracked=2)])
    monkeypatch.setattr(path, "losses", lambda *_: next(seen))
    row = cast("Row", SimpleNamespace(node=None, server=None))
    words = (
        "^3 of 30 connections failed: 3 timed out; 4 packets found the server's accept queues "
        "full, and the node could not track 2$"
    )
    with pytest.raises(RuntimeError, match=words):
        path._figures(row, 80, ["10.96.0.1"], 1.0)


def test_reasons_of_all_clients_are_added_up() -> None:
    found = [
        Connections(1000, 1.0, [], failed={"timed out": 1, "connection refused": 2}),
        Connections(2000, 1.0, [], failed={"connection refused": 1}),
    ]
    assert path.failures(found) == (
        "4 of 3,004 connections failed: 3 connection refused, 1 timed out"
    )
    assert path.failures([Connections(1000, 1.0, [])]) == ""


def test_full_accept_queues_are_counted() -> None:
    netstat = """\
TcpExt: SyncookiesSent ListenOverflows ListenDrops
TcpExt: 1 2 30
IpExt: InNoRoutes
IpExt: 5
"""
    assert listen_drops(netstat) == 30
    with pytest.raises(ValueError, match="ListenDrops"):
        listen_drops("IpExt: InNoRoutes\nIpExt: 5\n")


def test_what_was_not_tracked_is_added_up_in_hexadecimal() -> None:
    stat = """\
entries  clashres insert_failed drop early_drop
000000ff 00000000 00000001 00000010 00000007
000000ff 00000000 00000002 00000000 00000000
"""
    assert not_tracked(stat) == 0x13
