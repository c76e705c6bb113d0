"""What a source cannot read."""

import pytest

from cluster.following import Consumer, following, service
from fakes.apiserver import FakeApiServer
from kubeproxy.cluster.client.access import Access
from kubeproxy.cluster.objects.meta import Kind
from waiting import until

pytestmark = pytest.mark.usefixtures("short_waits")


def named(consumer: Consumer) -> list[str]:
    return [gap.what for gap in consumer.gaps()]


async def test_from_an_unreachable_server_nothing_is_read() -> None:
    async with following(Access(server="https://127.0.0.1:1")) as consumer:
        await consumer.wait(lambda: len(consumer.attempts) > 1)
        [gap] = consumer.gaps()
    assert gap.what == "everything"
    assert "cannot connect to https://127.0.0.1:1 (connection refused" in gap.reason
    assert gap.seconds is not None


@pytest.mark.parametrize("code", [401, 503])
async def test_from_a_server_that_refuses_everything_nothing_is_read(
    server: FakeApiServer, code: int
) -> None:
    server.faults.status("services", code, times=2)
    async with following(server) as consumer:
        await until(lambda: named(consumer) == ["everything"])
        assert str(code) in consumer.gaps()[0].reason
        await consumer.wait_synced()
        await until(lambda: named(consumer) == [])


async def test_a_refusal_is_of_one_kind(server: FakeApiServer) -> None:
    server.faults.status("endpointslices", 403, times=None)
    async with following(server, Kind.SERVICE, Kind.ENDPOINT_SLICE) as consumer:
        await until(lambda: named(consumer) == ["EndpointSlices"])
        assert "403" in consumer.gaps()[0].reason
        server.put(service("served"))
        await consumer.wait_names("served")
        server.faults.clear()
        await consumer.wait_synced(Kind.ENDPOINT_SLICE)
        await until(lambda: named(consumer) == [])


async def test_service_ranges_that_are_refused_are_not_missed(server: FakeApiServer) -> None:
    server.faults.status("servicecidrs", 404, times=None)
    async with following(server, Kind.SERVICE, Kind.SERVICE_CIDR) as consumer:
        await consumer.wait_synced()
        await until(lambda: sum("servicecidrs" in each.path for each in server.requests) > 1)
        assert named(consumer) == []
