"""A running test API server and a client of it."""

from collections.abc import AsyncIterator

import pytest

from fakes.apiclient import Client, client_of
from fakes.apiserver import FakeApiServer


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as running:
        yield running


@pytest.fixture
async def http(server: FakeApiServer) -> AsyncIterator[Client]:
    async with client_of(server.url) as client:
        yield client
