"""A bare client for the tests of the test API server."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp


class Client:
    """Sends requests; answers stay open until `close`, so that streams can be left unread."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self._responses: list[aiohttp.ClientResponse] = []

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        json: object = None,
    ) -> aiohttp.ClientResponse:
        response = await self._session.request(
            method, path, params=params, headers=headers, json=json
        )
        self._responses.append(response)
        return response

    async def get(self, path: str, **query: str) -> aiohttp.ClientResponse:
        return await self.request("GET", path, params=query)

    def close(self) -> None:
        for response in self._responses:
            response.close()


@asynccontextmanager
async def client_of(url: str) -> AsyncIterator[Client]:
    """A client for the server at the URL, which offers no compression unless a request does."""
    headers = {"Accept-Encoding": "identity"}
    async with aiohttp.ClientSession(url, headers=headers, auto_decompress=False) as session:
        client = Client(session)
        yield client
        client.close()
