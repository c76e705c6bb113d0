"""What a source cannot tell of, for those who ask."""

import pytest

from cluster.following import Heard, following, service
from fakes.apiserver import FakeApiServer
from kubeproxy.cluster.client.access import Access, Tls
from kubeproxy.cluster.objects.meta import Kind
from waiting import until

pytestmark = pytest.mark.usefixtures("short_waits")


def named(heard: Heard) -> list[str]:
    return [gap.what for gap in heard.gaps()]


async def test_a_server_that_is_not_there_tells_of_nothing() -> None:
    async with following(Access(server="https://127.0.0.1:1", tls=Tls())) as heard:
        await heard.wait(lambda: len(heard.attempts) > 1)
        [gap] = heard.gaps()
    assert gap.what == "everything"
    assert "cannot connect to https://127.0.0.1:1 (connection refused" in gap.reason
    assert gap.seconds is not None


@pytest.mark.parametrize("code", [401, 503])
async def test_a_server_that_does_not_serve_us_tells_of_nothing(
    server: FakeApiServer, code: int
) -> None:
    server.faults.status("services", code, times=2)
    async with following(server) as heard:
        await until(lambda: named(heard) == ["everything"])
        assert str(code) in heard.gaps()[0].reason
        await heard.wait_synced()
        await until(lambda: named(heard) == [])


async def test_a_refusal_is_of_one_kind(server: FakeApiServer) -> None:
    server.faults.status("endpointslices", 403, times=None)
    async with following(server, Kind.SERVICE, Kind.ENDPOINT_SLICE) as heard:
        await until(lambda: named(heard) == ["EndpointSlices"])
        assert "403" in heard.gaps()[0].reason
        server.put(service("told"))
        await heard.wait_names("told")
        server.faults.clear()
        await heard.wait_synced(Kind.ENDPOINT_SLICE)
        await until(lambda: named(heard) == [])


async def test_service_ranges_that_are_refused_are_not_missed(server: FakeApiServer) -> None:
    server.faults.status("servicecidrs", 404, times=None)
    async with following(server, Kind.SERVICE, Kind.SERVICE_CIDR) as heard:
        await heard.wait_synced()
        await until(lambda: sum("servicecidrs" in each.path for each in server.requests) > 1)
        assert named(heard) == []
