import ssl
from pathlib import Path

import aiohttp
import pytest

from fakes.apiserver import FakeApiServer
from fakes.certs import Pair, issue, make_authority, server_tls


def client_context(authority: Pair, pair: Pair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.cert))
    if pair is not None:
        context.load_cert_chain(pair.cert, pair.key)
    return context


async def status(
    server: FakeApiServer, context: ssl.SSLContext, headers: dict[str, str] | None = None
) -> int:
    async with aiohttp.ClientSession() as http:
        url = f"{server.url}/api/v1/nodes"
        async with http.get(url, ssl=context, headers=headers) as response:
            return response.status


async def test_clients_trust_the_authority_and_no_other(tmp_path: Path) -> None:
    tls, authority = server_tls(tmp_path)
    other = make_authority(tmp_path, "other")
    async with FakeApiServer(tls) as server:
        assert await status(server, client_context(authority)) == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await status(server, client_context(other))


async def test_credentials_are_a_token_or_a_certificate(tmp_path: Path) -> None:
    tls, authority = server_tls(tmp_path, client_certificates=True)
    client = issue(authority, tmp_path, "client")
    plain = client_context(authority)
    async with FakeApiServer(tls, {"secret"}) as server:
        assert await status(server, plain) == 401
        assert await status(server, client_context(authority, client)) == 200
        assert await status(server, plain, {"Authorization": "Bearer secret"}) == 200
        assert await status(server, plain, {"Authorization": "Bearer wrong"}) == 401
        server.tokens = {"rotated"}
        assert await status(server, plain, {"Authorization": "Bearer secret"}) == 401
