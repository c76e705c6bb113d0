"""HTTP/2 in front of the test API server; tests of the client tell of its faults."""

from pathlib import Path

import pytest

from fakes.apiserver import FakeApiServer
from fakes.certs import server_tls
from fakes.http2front import Http2Front
from kubeproxy.cluster.client.access import Access, ClusterEntry
from kubeproxy.cluster.client.http_client import HttpClient, RateLimit
from kubeproxy.cluster.client.observed import ignore

SERVICES = "/api/v1/services"


@pytest.mark.parametrize(
    ("environ", "connections"),
    [pytest.param({}, 1, id="http2"), pytest.param({"DISABLE_HTTP2": "1"}, 0, id="http1")],
)
async def test_a_client_gets_what_it_offers(
    tmp_path: Path, environ: dict[str, str], connections: int
) -> None:
    tls, authority = server_tls(tmp_path)
    cluster = ClusterEntry(certificate_authority=str(authority.cert))
    async with FakeApiServer() as server, Http2Front(server, tls) as front:
        access = Access(server=front.url, cluster=cluster)
        async with HttpClient(access, RateLimit(), environ, ignore) as client:
            async with client.get(SERVICES, (("limit", "5"),)) as response:
                body = await response.read_all()
            assert (response.status, response.content_type) == (200, "application/json")
            assert b'"kind":"ServiceList"' in body
            (request,) = server.requests
            assert (request.path, request.query) == (SERVICES, {"limit": "5"})
            assert front.accepted == connections
