import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Mapping

import pytest

from kubeproxy.base.inet import Family
from kubeproxy.engine.observer import SyncEnded, SyncRequested
from kubeproxy.engine.schedule import Outcome
from kubeproxy.serve.health.ports import HealthChecks, check_addresses
from kubeproxy.serve.http.listening import ListenError, listen
from kubeproxy.table.diff import Changes
from kubeproxy.table.entries import HealthCheck, ServiceName
from waiting import until
from world import prefix

CART, SHOP = ServiceName("demo", "cart"), ServiceName("demo", "shop")
ADDRESS = {Family.IPV4: "127.0.0.1", Family.IPV6: "::1"}


@pytest.mark.parametrize(
    ("family", "ranges", "expected"),
    [
        pytest.param(Family.IPV4, "", ("0.0.0.0",), id="no-ranges-is-everywhere"),
        pytest.param(Family.IPV6, "", ("::",), id="no-ranges-is-everywhere-in-ipv6"),
        pytest.param(
            Family.IPV6, "10.0.0.0/8", ("::",), id="only-the-other-family-is-everywhere-here"
        ),
        pytest.param(Family.IPV4, "10.1.0.0/16 0.0.0.0/0", ("0.0.0.0",), id="all-is-one-socket"),
        pytest.param(
            Family.IPV4,
            "10.1.0.0/16 192.0.2.0/24",
            ("10.1.2.3", "192.0.2.1"),
            id="the-addresses-in-the-ranges",
        ),
        pytest.param(Family.IPV4, "10.9.0.0/16", (), id="no-such-address-is-nowhere"),
    ],
)
def test_where_the_ports_are(family: Family, ranges: str, expected: tuple[str, ...]) -> None:
    own = ("10.1.2.3", "10.2.2.3", "192.0.2.1")
    assert expected == check_addresses(family, map(prefix, ranges.split()), own)


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(listen("::", 0)) for _ in range(count)]
        return [made.getsockname()[1] for made in sockets]


class Rig:
    """The health checks of both families on loopback."""

    def __init__(self) -> None:
        self.healthy = True
        self.addresses: dict[Family, tuple[str, ...]] = {f: (a,) for f, a in ADDRESS.items()}
        self.refusals: list[tuple[ServiceName, int, str]] = []
        self.checks = HealthChecks(lambda: self.healthy, self.addresses.__getitem__, self._refused)

    def _refused(self, service: ServiceName, port: int, error: ListenError) -> None:
        self.refusals.append((service, port, str(error)))

    def sync(
        self,
        checks: Mapping[ServiceName, HealthCheck | None],
        family: Family = Family.IPV4,
        outcome: Outcome = Outcome.OK,
    ) -> None:
        changes = Changes(health_checks=dict(checks))
        self.checks.observe(SyncEnded(family, outcome, False, 0.1, changes, None))


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = Rig()
    task = asyncio.ensure_future(made.checks.run())
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def ask(port: int, family: Family = Family.IPV4) -> tuple[int, int]:
    """Status and count; (0, 0) when no process listens, or not until the end."""
    try:
        reader, writer = await asyncio.open_connection(ADDRESS[family], port)
    except ConnectionError:
        return 0, 0
    try:
        writer.write(b"POST /anything HTTP/1.0\r\n\r\n")
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        return (int(head.split()[1]), json.loads(body)["localEndpoints"]) if head else (0, 0)
    except ConnectionError:
        return 0, 0
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def answers(expected: tuple[int, int], port: int, family: Family = Family.IPV4) -> bool:
    """Whether that is the answer, in a moment."""
    async with asyncio.timeout(10):
        while (got := await ask(port, family)) != expected:
            await asyncio.sleep(0.005)
    return got == expected


async def test_ports_open_count_move_and_close_with_their_services(rig: Rig) -> None:
    first, second = free_ports(2)
    rig.checks.observe(SyncRequested(Family.IPV4, 1))
    rig.sync({CART: HealthCheck(first, 2)})
    assert await answers((200, 2), first)
    rig.sync({CART: HealthCheck(first, 0)})
    assert await answers((503, 0), first)
    rig.sync({CART: HealthCheck(second, 1)})
    assert await answers((200, 1), second)
    assert await ask(first) == (0, 0)
    rig.healthy = False
    assert await ask(second) == (503, 1)
    rig.sync({CART: None})
    assert await answers((0, 0), second)
    assert rig.refusals == []


async def test_the_families_have_their_own_counts(rig: Rig) -> None:
    (port,) = free_ports(1)
    rig.sync({CART: HealthCheck(port, 1)})
    rig.sync({CART: HealthCheck(port, 0)}, Family.IPV6)
    assert await answers((200, 1), port)
    assert await answers((503, 0), port, Family.IPV6)
    rig.sync({CART: None})
    assert await answers((0, 0), port)
    assert await ask(port, Family.IPV6) == (503, 0)


async def test_a_failed_sync_changes_nothing_until_one_goes_well(rig: Rig) -> None:
    (port,) = free_ports(1)
    rig.sync({CART: HealthCheck(port, 1)}, outcome=Outcome.FAILED)
    await asyncio.sleep(0.02)
    assert await ask(port) == (0, 0)
    rig.sync({}, outcome=Outcome.PARTLY)
    assert await answers((200, 1), port)
    rig.sync({CART: None}, outcome=Outcome.FAILED)
    await asyncio.sleep(0.02)
    assert await ask(port) == (200, 1)
    rig.sync({})
    assert await answers((0, 0), port)


async def test_a_port_may_go_to_another_service(rig: Rig) -> None:
    (port,) = free_ports(1)
    rig.sync({SHOP: HealthCheck(port, 3)})
    assert await answers((200, 3), port)
    rig.sync({CART: HealthCheck(port, 5), SHOP: None})
    assert await answers((200, 5), port)
    assert rig.refusals == []


async def test_a_port_in_use_concerns_its_service_alone_and_is_tried_again(rig: Rig) -> None:
    taken, free = free_ports(2)
    with listen(ADDRESS[Family.IPV4], taken):
        rig.sync({CART: HealthCheck(taken, 1), SHOP: HealthCheck(free, 1)})
        assert await answers((200, 1), free)
        error = f"listen tcp4 127.0.0.1:{taken}: bind: address already in use"
        assert [(CART, taken, error)] == rig.refusals
        rig.sync({})
        await until(lambda: len(rig.refusals) == 2)
    rig.sync({})
    assert await answers((200, 1), taken)
    assert len(rig.refusals) == 2


async def test_all_addresses_of_a_service_or_none(rig: Rig) -> None:
    (port,) = free_ports(1)
    rig.addresses[Family.IPV4] = ("127.0.0.1", "192.0.2.1")
    rig.sync({CART: HealthCheck(port, 1)})
    await until(lambda: bool(rig.refusals))
    assert await ask(port) == (0, 0)
    rig.addresses[Family.IPV4] = ("127.0.0.1",)
    rig.sync({})
    assert await answers((200, 1), port)
    rig.addresses[Family.IPV4] = ()
    rig.sync({})
    assert await answers((0, 0), port)


async def test_closing_drops_connections(rig: Rig) -> None:
    (port,) = free_ports(1)
    rig.sync({CART: HealthCheck(port, 1)})
    assert await answers((200, 1), port)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    rig.sync({CART: None})
    async with asyncio.timeout(10):
        with contextlib.suppress(ConnectionResetError):
            await reader.read()
    writer.close()
    with contextlib.suppress(ConnectionResetError):
        await writer.wait_closed()


async def test_300_ports_at_once(rig: Rig) -> None:
    ports = free_ports(300)
    names = [ServiceName("demo", f"s{n}") for n in range(300)]
    rig.sync({name: HealthCheck(port, 1) for name, port in zip(names, ports, strict=True)})
    assert await answers((200, 1), ports[-1])
    got = await asyncio.gather(*(ask(port) for port in ports))
    assert {(200, 1)} == set(got)
    rig.sync(dict.fromkeys(names))
    assert await answers((0, 0), ports[-1])
    for port in ports:
        with socket.create_server(("127.0.0.1", port)):
            pass
