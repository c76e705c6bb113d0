"""A running test API server, and short delays so that failures pass quickly."""

from collections.abc import AsyncIterator

import pytest

from fakes.apiserver import FakeApiServer


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as running:
        yield running


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubeproxy.cluster.watch.backoff.BACKOFF_INITIAL", 0.01)
    monkeypatch.setattr("kubeproxy.cluster.watch.backoff.BACKOFF_LIMIT", 0.02)
