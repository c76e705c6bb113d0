import asyncio
import errno
import gc
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from kubeproxy.linux import localproxy
from kubeproxy.linux.descriptors import KEPT
from kubeproxy.linux.localproxy import CONNECTIONS, Address, LocalProxy
from scarcity import room_for
from waiting import until

V4 = "127.0.0.1"
V6 = "::1"
Targets = tuple[Address, ...]


class Rig:
    """A proxy whose listeners are lists of targets; a pin counts the choices of its port."""

    def __init__(self, connect_seconds: float = 5.0, connections: int = CONNECTIONS) -> None:
        self.sockets = ExitStack()
        self.pins: list[int | None] = []
        self.proxy = LocalProxy(self.choose, connect_seconds, connections)

    def choose(
        self, targets: Targets, pin: int | None, now: float, chance: float
    ) -> tuple[Address, int]:
        assert now > 0
        assert 0 <= chance < 1
        self.pins.append(pin)
        return targets[int(chance * len(targets))], (pin or 0) + 1

    def address(self, host: str = V4) -> Address:
        """A port that no other program gets: it is bound, and may be bound again on purpose."""
        return address_of(self.bound(host))

    def server(self, host: str = V4, backlog: int = 16) -> socket.socket:
        server = self.bound(host)
        server.listen(backlog)
        return server

    def bound(self, host: str) -> socket.socket:
        bound = self.sockets.enter_context(tcp(host))
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, 0))
        return bound

    async def serve(self, *servers: socket.socket, host: str = V4) -> Address:
        """Listen on an address on behalf of these servers."""
        address = self.address(host)
        assert await self.proxy.update({address: tuple(map(address_of, servers))}) == {}
        return address

    async def dial(self, address: Address) -> socket.socket:
        client = self.sockets.enter_context(tcp(address[0]))
        async with asyncio.timeout(10):
            await asyncio.get_running_loop().sock_connect(client, address)
        return client

    async def accept(self, server: socket.socket) -> socket.socket:
        async with asyncio.timeout(10):
            accepted, _ = await asyncio.get_running_loop().sock_accept(server)
        return self.sockets.enter_context(accepted)

    async def pair(self, address: Address, server: socket.socket) -> tuple[socket.socket, ...]:
        """A client, and the connection that the server got for it."""
        return await self.dial(address), await self.accept(server)

    def connections(self) -> int:
        return self.proxy.connections


def tcp(host: str) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    made.setblocking(False)
    return made


def address_of(bound: socket.socket) -> Address:
    host, port = bound.getsockname()[:2]
    return host, port


def sockets_open() -> int:
    found = 0
    for link in Path("/proc/self/fd").iterdir():
        try:
            found += str(link.readlink()).startswith("socket:")
        except FileNotFoundError:
            continue
    return found


async def send(to: socket.socket, data: bytes) -> None:
    async with asyncio.timeout(10):
        await asyncio.get_running_loop().sock_sendall(to, data)


async def receive(source: socket.socket, size: int | None = None) -> bytes:
    """That many bytes, or all of them to the end."""
    received = bytearray()
    async with asyncio.timeout(10):
        while size is None or len(received) < size:
            data = await asyncio.get_running_loop().sock_recv(source, 1 << 16)
            if not data:
                break
            received += data
    return bytes(received)


def figures(rig: Rig) -> tuple[int, int, int]:
    """The listeners, the connections, and how many times a listener could not be opened."""
    return rig.proxy.listeners, rig.proxy.connections, rig.proxy.bind_failures


def reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    """The rig; afterwards no socket and no task may be left."""
    before, tasks = sockets_open(), asyncio.all_tasks()
    made = Rig()
    yield made
    await made.proxy.close()
    assert made.connections() == 0
    made.sockets.close()
    assert before == sockets_open()
    assert tasks >= asyncio.all_tasks() - {asyncio.current_task()}


@pytest.fixture
async def impatient(rig: Rig) -> AsyncIterator[Rig]:
    """A rig that gives up connecting very soon."""
    made = Rig(connect_seconds=0.05)
    made.sockets = rig.sockets
    yield made
    await made.proxy.close()


@pytest.fixture
async def hole(rig: Rig) -> socket.socket:
    """A server that answers no client: its queue is full."""
    server = rig.server(backlog=0)
    await rig.dial(address_of(server))
    return server


@pytest.mark.parametrize("host", [V4, V6])
async def test_bytes_go_both_ways(rig: Rig, host: str) -> None:
    server = rig.server(host)
    client, backend = await rig.pair(await rig.serve(server, host=host), server)
    await send(client, b"question")
    assert await receive(backend, 8) == b"question"
    await send(backend, b"answer")
    assert await receive(client, 6) == b"answer"
    assert figures(rig) == (1, 1, 0)


async def test_a_connection_at_rest_holds_no_chunk_and_has_no_deadline(rig: Rig) -> None:
    server = rig.server()
    address = await rig.serve(server)
    client, backend = await rig.pair(address, server)
    await send(client, b"question")
    await receive(backend, 8)
    (connection,) = rig.proxy._ports[address].connections
    assert [flow._rest.obj for flow in connection._flows] == [b"", b""]
    assert connection._deadline is not None
    assert connection._deadline.cancelled()


async def test_a_target_may_be_of_the_other_family(rig: Rig) -> None:
    server = rig.server(V6)
    _, backend = await rig.pair(await rig.serve(server, host=V4), server)
    assert backend.family is socket.AF_INET6


async def test_the_backend_may_speak_first(rig: Rig) -> None:
    server = rig.server()
    client, backend = await rig.pair(await rig.serve(server), server)
    await send(backend, b"hello")
    assert await receive(client, 5) == b"hello"


@pytest.mark.parametrize("first", ["client", "backend"])
async def test_a_side_that_has_said_all_still_hears_the_other(rig: Rig, first: str) -> None:
    server = rig.server()
    client, backend = await rig.pair(await rig.serve(server), server)
    one, other = (client, backend) if first == "client" else (backend, client)
    await send(one, b"question")
    one.shutdown(socket.SHUT_WR)
    assert await receive(other) == b"question"
    assert rig.connections() == 1
    await send(other, b"answer")
    other.close()
    assert await receive(one) == b"answer"
    await until(lambda: rig.connections() == 0)


async def test_much_in_both_directions_at_once_arrives_whole(rig: Rig) -> None:
    server = rig.server()
    client, backend = await rig.pair(await rig.serve(server), server)
    there, back = os.urandom(1 << 23), os.urandom(1 << 23)

    async def say(to: socket.socket, data: bytes) -> None:
        await send(to, data)
        to.shutdown(socket.SHUT_WR)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(say(client, there))
        tasks.create_task(say(backend, back))
        received = tasks.create_task(receive(backend))
        answered = tasks.create_task(receive(client))
    assert there == received.result()
    assert back == answered.result()


async def fill(to: socket.socket, limit: int) -> int:
    """Send until no more is taken; the number of bytes that were taken."""
    sent = refusals = 0
    while sent < limit and refusals < 20:
        try:
            sent += to.send(bytes(min(1 << 16, limit - sent)))
            refusals = 0
        except BlockingIOError:
            refusals += 1
            await asyncio.sleep(0.002)
        await asyncio.sleep(0)
    return sent


async def test_a_sender_waits_for_a_slow_reader_and_no_other_does(rig: Rig) -> None:
    server = rig.server()
    address = await rig.serve(server)
    client, backend = await rig.pair(address, server)
    sent = await fill(client, 1 << 28)
    assert sent < 1 << 28
    (connection,) = rig.proxy._ports[address].connections
    held = [flow._rest.nbytes for flow in connection._flows]
    assert 0 < held[0] <= localproxy._CHUNK
    assert held[1] == 0

    await send(backend, b"the other direction")
    assert await receive(client, 19) == b"the other direction"
    other, served = await rig.pair(address, server)
    await send(other, b"another client")
    assert await receive(served, 14) == b"another client"

    client.shutdown(socket.SHUT_WR)
    assert sent == len(await receive(backend))


async def test_what_a_full_sink_refuses_is_kept_for_it() -> None:
    ended: list[OSError | None] = []
    (speaker, source), (sink, hearer) = socket.socketpair(), socket.socketpair()
    with speaker, source, sink, hearer:
        for each in (speaker, source, sink, hearer):
            each.setblocking(False)
        ahead = await fill(sink, 1 << 28)
        flow = localproxy._Flow(source, sink, ended.append)
        await send(speaker, b"last")
        speaker.close()
        await until(lambda: flow._waits_for_sink)
        assert not asyncio.get_running_loop().remove_reader(source), "it would wake up for nothing"
        assert (await receive(hearer))[ahead:] == b"last"
    assert ended == [None]


async def test_when_a_target_goes_its_connections_stay(rig: Rig) -> None:
    old, new = rig.server(), rig.server()
    address = await rig.serve(old)
    client, backend = await rig.pair(address, old)
    assert await rig.proxy.update({address: (address_of(new),)}) == {}
    old.close()
    await send(client, b"still")
    assert await receive(backend, 5) == b"still"
    await rig.pair(address, new)
    assert rig.connections() == 2


async def test_when_a_listener_goes_its_connections_are_cut(rig: Rig) -> None:
    server = rig.server()
    gone, stays = await rig.serve(server), rig.address()
    targets = (address_of(server),)
    await rig.proxy.update({gone: targets, stays: targets})
    client, backend = await rig.pair(gone, server)
    lasting, lasting_backend = await rig.pair(stays, server)
    assert await rig.proxy.update({stays: targets}) == {}
    for side in (client, backend):
        with pytest.raises(ConnectionResetError):
            await receive(side)
    with pytest.raises(ConnectionRefusedError):
        await rig.dial(gone)
    await send(lasting, b"on")
    assert await receive(lasting_backend, 2) == b"on"


@pytest.mark.parametrize("first", ["client", "backend"])
async def test_a_reset_is_passed_on(rig: Rig, first: str) -> None:
    server = rig.server()
    client, backend = await rig.pair(await rig.serve(server), server)
    one, other = (client, backend) if first == "client" else (backend, client)
    reset(one)
    with pytest.raises(ConnectionResetError):
        await receive(other)
    assert rig.connections() == 0


async def test_a_side_that_vanishes_in_the_middle_of_an_answer_ends_the_other(rig: Rig) -> None:
    server = rig.server()
    client, backend = await rig.pair(await rig.serve(server), server)
    await fill(backend, 1 << 28)
    client.close()
    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        await send(backend, bytes(1 << 24))
    assert rig.connections() == 0


@pytest.mark.parametrize(
    "target",
    [
        pytest.param(lambda rig: rig.address(), id="no-listener"),
        pytest.param(lambda _: ("255.255.255.255", 80), id="no-route"),
    ],
)
async def test_one_target_is_tried_and_no_other(
    rig: Rig, target: Callable[[Rig], Address]
) -> None:
    address = rig.address()
    await rig.proxy.update({address: (target(rig),)})
    with pytest.raises(ConnectionResetError):  # perhaps before the client knows it is connected
        await receive(await rig.dial(address))
    assert rig.pins == [None]
    assert rig.connections() == 0


async def test_a_target_that_does_not_answer_in_time_is_given_up(
    impatient: Rig, hole: socket.socket
) -> None:
    client = await impatient.dial(await impatient.serve(hole))
    with pytest.raises(ConnectionResetError):
        await receive(client)
    assert impatient.pins == [None]
    assert impatient.connections() == 0


async def test_a_client_is_cut_while_its_target_is_dialled(rig: Rig, hole: socket.socket) -> None:
    client = await rig.dial(await rig.serve(hole))
    await until(lambda: rig.connections() == 1)
    await rig.proxy.update({})
    with pytest.raises(ConnectionResetError):
        await receive(client)


async def test_what_a_client_sent_before_it_hung_up_is_delivered(rig: Rig) -> None:
    server = rig.server()
    client = await rig.dial(await rig.serve(server))
    await send(client, b"last words")
    client.close()
    assert await receive(await rig.accept(server)) == b"last words"


async def test_many_clients_at_once_are_all_served(rig: Rig) -> None:
    server = rig.server(backlog=256)
    address = await rig.serve(server)
    clients = [rig.sockets.enter_context(tcp(V4)) for _ in range(150)]
    assert {client.connect_ex(address) for client in clients} <= {0, errno.EINPROGRESS}
    await until(lambda: rig.connections() == 150)
    for client in clients:
        await send(client, b"x")
    for _ in clients:
        assert await receive(await rig.accept(server), 1) == b"x"


async def test_each_choice_knows_what_the_last_one_left(rig: Rig) -> None:
    server = rig.server()
    address = await rig.serve(server)
    targets = (address_of(server),)
    await rig.pair(address, server)
    await rig.pair(address, server)
    await rig.proxy.update({address: targets * 2})
    await rig.pair(address, server)
    assert rig.pins == [None, 1, 2]
    await rig.proxy.update({})
    await rig.proxy.update({address: targets})
    await rig.pair(address, server)
    assert rig.pins == [None, 1, 2, None]


async def test_a_port_in_use_is_reported_and_tried_again(rig: Rig) -> None:
    taken, server = rig.server(), rig.server()
    free = rig.address()
    wanted = {address_of(taken): (address_of(server),), free: (address_of(server),)}
    for attempt in (1, 2):
        failures = await rig.proxy.update(wanted)
        assert failures.keys() == {address_of(taken)}
        assert failures[address_of(taken)].startswith("Address already in use")
        assert (1, 0, attempt) == figures(rig)
    await rig.pair(free, server)
    occupied = address_of(taken)
    taken.close()
    assert await rig.proxy.update(wanted) == {}
    await rig.pair(occupied, server)
    assert rig.proxy.bind_failures == 2


async def test_without_room_for_another_file_clients_wait(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(localproxy, "_REST_SECONDS", 0.02)
    server = rig.server()
    address = await rig.serve(server)
    client = rig.sockets.enter_context(tcp(V4))
    with room_for(0):
        await asyncio.get_running_loop().sock_connect(client, address)
        (port,) = rig.proxy._ports.values()
        await until(lambda: port._rest is not None)
        assert rig.connections() == 0
    await send(client, b"patient")
    assert await receive(await rig.accept(server), 7) == b"patient"
    assert "Cannot accept a connection to a local node port" in capsys.readouterr().err


async def test_a_listener_that_rests_can_be_closed(rig: Rig) -> None:
    address = await rig.serve(rig.server())
    client = rig.sockets.enter_context(tcp(V4))
    with room_for(0):
        await asyncio.get_running_loop().sock_connect(client, address)
        (port,) = rig.proxy._ports.values()
        await until(lambda: port._rest is not None)
        await rig.proxy.close()
    with pytest.raises(ConnectionResetError):
        await receive(client)
    assert port._rest is not None
    assert port._rest.cancelled()


async def test_without_room_for_the_second_socket_the_client_is_cut(rig: Rig) -> None:
    address = await rig.serve(rig.server())
    client = rig.sockets.enter_context(tcp(V4))

    async def visit() -> None:
        await asyncio.get_running_loop().sock_connect(client, address)
        await receive(client)

    with room_for(KEPT + 1), pytest.raises(ConnectionResetError):
        await visit()
    assert rig.connections() == 0


async def test_the_last_descriptors_are_neither_for_clients_nor_for_listeners(rig: Rig) -> None:
    server = rig.server()
    address, another = await rig.serve(server), rig.address()
    client = rig.sockets.enter_context(tcp(V4))
    targets = (address_of(server),)
    with room_for(KEPT):
        await asyncio.get_running_loop().sock_connect(client, address)
        assert await receive(client) == b""
        failures = await rig.proxy.update({address: targets, another: targets})
        assert failures == {another: "Too many open files"}


@pytest.fixture
async def small(rig: Rig) -> AsyncIterator[Rig]:
    """A rig with hardly any connections."""
    made = Rig(connections=8)
    made.sockets = rig.sockets
    yield made
    await made.proxy.close()


async def is_served(rig: Rig, address: Address, server: socket.socket) -> bool:
    """Whether one more client gets through to the server, and stays; else it is reset."""
    before = rig.connections()
    try:
        client = await rig.dial(address)
        await until(lambda: rig.connections() > before or is_reset(client))
    except ConnectionResetError:
        return False
    await rig.accept(server)
    return True


def is_reset(client: socket.socket) -> bool:
    with suppress(BlockingIOError):
        client.recv(1)
    return False


async def test_each_listener_leaves_connections_to_the_others(
    small: Rig, capsys: pytest.CaptureFixture[str]
) -> None:
    server = small.server()
    ports = [small.address() for _ in range(3)]
    await small.proxy.update({port: (address_of(server),) for port in ports})
    served = [
        [await is_served(small, port, server) for _ in range(5)].count(True) for port in ports
    ]
    assert served == [4, 2, 1]
    said = capsys.readouterr().err
    where = f'at="{V4}:{ports[0][1]}" connections=4'
    line = f'"Too many connections to a local node port, new ones are reset" {where}'
    assert said.count(line) == 1
    assert said.count("Too many connections") == 3


async def test_a_connection_that_ends_makes_room_for_another(small: Rig) -> None:
    server = small.server()
    address = await small.serve(server)
    first, backend = await small.pair(address, server)
    for _ in range(3):
        await small.pair(address, server)
    assert not await is_served(small, address, server)
    first.close()
    backend.close()
    await until(lambda: small.connections() == 3)
    assert await is_served(small, address, server)


def crowd(rig: Rig, size: int) -> dict[Address, Targets]:
    _, port = rig.address()
    return {(f"127.0.1.{n}", port): ((V4, port),) for n in range(1, size + 1)}


async def test_opening_many_listeners_lets_others_run(rig: Rig) -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    task = asyncio.create_task(others())
    assert await rig.proxy.update(crowd(rig, 200)) == {}
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert turns >= 2


async def test_an_update_that_was_interrupted_is_finished_by_the_next(rig: Rig) -> None:
    wanted = crowd(rig, 200)
    task = asyncio.create_task(rig.proxy.update(wanted))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert 0 < rig.proxy.listeners < 200
    assert await rig.proxy.update(wanted) == {}
    assert figures(rig) == (200, 0, 0)


async def test_connections_that_are_over_leave_nothing_behind(rig: Rig) -> None:
    server = rig.server(backlog=128)
    address = await rig.serve(server)

    gc.collect()
    gc.disable()
    try:
        for _ in range(50):
            client, backend = await rig.pair(address, server)
            await send(client, b"x")
            client.shutdown(socket.SHUT_WR)
            assert await receive(backend) == b"x"
            backend.close()
            assert await receive(client) == b""
            client.close()
        await until(lambda: rig.connections() == 0)
        kinds = (localproxy._Connection, localproxy._Flow)
        assert [each for each in gc.get_objects() if isinstance(each, kinds)] == []
    finally:
        gc.enable()
