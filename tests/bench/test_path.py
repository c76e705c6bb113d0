import contextlib
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import pytest
from bench.load import Connections
from bench.path import Row

from bench import path


def test_a_way_on_which_connections_fail_has_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    def dial(_row: Row, _role: str, _asked: Sequence[str], clients: int) -> list[Connections]:
        return [Connections(9, 1.0, [50.0] * 9, failed=1)] * clients

    monkeypatch.setattr(path, "_dial", dial)
    monkeypatch.setattr(path, "serving", lambda *_: contextlib.nullcontext())
    row = cast("Row", SimpleNamespace(server=None))
    with pytest.raises(RuntimeError, match="3 of 30 connections failed"):
        path._figures(row, 80, ["10.96.0.1"], 1.0)
