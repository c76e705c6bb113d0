import asyncio
import contextlib
import errno
import os
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable

import pytest

from kubeproxy.linux.descriptors import KEPT
from kubeproxy.serve.http import server
from kubeproxy.serve.http.answer import Answer, Page, text
from kubeproxy.serve.http.listening import ListenError, listen
from kubeproxy.serve.http.request import Ends, Request
from kubeproxy.serve.http.room import Limits, Room
from kubeproxy.serve.http.server import Port, serve
from scarcity import room_for
from waiting import until

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def echo(request: Request) -> Answer:
    body = f"{request.method} {request.path} {request.body.decode()}"
    return text(body)


class Rig:
    """A port on loopback, and clients of it that are closed at the end."""

    def __init__(self, page: Page, limits: Limits, tasks: asyncio.TaskGroup) -> None:
        self.listening = listen("127.0.0.1", 0)
        self.number: int = self.listening.getsockname()[1]
        self.room = Room(limits)
        self.port = Port((self.listening,), page, self.room, tasks)
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self) -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.number)
        self._writers.append(writer)
        return reader, writer

    async def exchange(self, data: bytes) -> bytes:
        """Send, and read until the server ends it."""
        reader, writer = await self.connect()
        writer.write(data)
        async with asyncio.timeout(10):
            return await reader.read()

    async def close(self) -> None:
        self.port.close()
        for writer in self._writers:
            await hang_up(writer)


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


@contextlib.asynccontextmanager
async def rig(page: Page = echo, limits: Limits | None = None) -> AsyncIterator[Rig]:
    async with asyncio.TaskGroup() as tasks:
        made = Rig(page, limits or Limits(), tasks)
        try:
            yield made
        finally:
            await made.close()


def get(path: str, *headers: str, method: str = "GET", version: str = "1.1") -> bytes:
    lines = [f"{method} {path} HTTP/{version}", "Host: x", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def answer_of(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    """Status line and body of one answer."""
    async with asyncio.timeout(10):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
        return head.split("\r\n")[0], await reader.readexactly(length)


async def test_a_connection_is_kept_and_pipelined_requests_come_in_order() -> None:
    async with rig() as made:
        reader, writer = await made.connect()
        body = get("/c", "Content-Length: 3", method="PUT")
        writer.write(get("/a") + get("/b", "Expect: 100-continue") + body + b"xyz")
        assert await answer_of(reader) == ("HTTP/1.1 200 OK", b"GET /a ")
        assert await answer_of(reader) == ("HTTP/1.1 200 OK", b"GET /b ")
        assert await answer_of(reader) == ("HTTP/1.1 200 OK", b"PUT /c xyz")
        writer.write(get("/d", "Connection: close"))
        assert await answer_of(reader) == ("HTTP/1.1 200 OK", b"GET /d ")
        assert await reader.read() == b""


async def test_a_request_may_come_byte_by_byte() -> None:
    async with rig() as made:
        reader, writer = await made.connect()
        for byte in get("/slow", "Content-Length: 2", method="PUT") + b"hi":
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        assert await answer_of(reader) == ("HTTP/1.1 200 OK", b"PUT /slow hi")


async def test_a_client_that_asks_before_its_body_gets_continue() -> None:
    async with rig() as made:
        reader, writer = await made.connect()
        writer.write(get("/", "Content-Length: 2", "Expect: 100-continue", method="PUT"))
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"hi")
        assert await answer_of(reader) == ("HTTP/1.1 200 OK", b"PUT / hi")


async def test_head_has_the_headers_of_get_and_no_body() -> None:
    async with rig(lambda _: text("five!")) as made:
        out = await made.exchange(get("/", "Connection: close", method="HEAD"))
        assert out.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain")
        assert b"Content-Length: 5\r\n" in out
        assert out.endswith(b"\r\n\r\n")
        assert b"Server:" not in out


async def pieces() -> AsyncIterator[bytes]:
    yield b"one "
    yield b""
    yield b"two"


@pytest.mark.parametrize(
    ("version", "body"),
    [
        pytest.param("1.1", b"4\r\none \r\n3\r\ntwo\r\n0\r\n\r\n", id="in-chunks"),
        pytest.param("1.0", b"one two", id="to-http-1.0-as-it-is"),
    ],
)
async def test_a_body_may_come_in_pieces(version: str, body: bytes) -> None:
    async def page(_: Request) -> Answer:
        await asyncio.sleep(0)
        return Answer(body=pieces())

    async with rig(page) as made:
        out = await made.exchange(get("/", "Connection: close", version=version))
        assert body == out.partition(b"\r\n\r\n")[2]


async def test_many_long_answers_are_made_a_few_pieces_in_each_round_of_the_loop() -> None:
    made_in: Counter[int] = Counter()
    rounds = 0

    async def count_rounds() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            await asyncio.sleep(0)

    async def long() -> AsyncIterator[bytes]:
        for _ in range(30):
            made_in[rounds] += 1
            yield b"piece"

    counting = asyncio.ensure_future(count_rounds())
    async with rig(lambda _: Answer(body=long())) as made:
        asked = get("/", "Connection: close")
        outs = await asyncio.gather(*(made.exchange(asked) for _ in range(20)))
    counting.cancel()
    assert {30} == {out.count(b"piece") for out in outs}
    assert max(made_in.values()) <= 8


@pytest.mark.parametrize("size", [0, 1, 65536, 65537, 1_000_000])
async def test_a_large_body_arrives_whole(size: int) -> None:
    body = os.urandom(size)
    async with rig(lambda _: Answer(body=body)) as made:
        out = await made.exchange(get("/", "Connection: close"))
        assert body == out.partition(b"\r\n\r\n")[2]


async def test_a_page_that_fails_is_a_500_and_the_next_one_is_answered(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def page(request: Request) -> Answer:
        if request.path == "/bad":
            raise ZeroDivisionError("page")
        return text("fine")

    async with rig(page) as made:
        reader, writer = await made.connect()
        writer.write(get("/bad") + get("/good"))
        status, _ = await answer_of(reader)
        assert status == "HTTP/1.1 500 Internal Server Error"
        assert await answer_of(reader) == ("HTTP/1.1 200 OK", b"fine")
    assert "Failed to answer a request" in capsys.readouterr().err


async def test_a_body_that_fails_ends_its_connection_and_no_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"half"
        raise ZeroDivisionError("body")

    def page(request: Request) -> Answer:
        return Answer(body=broken()) if request.path == "/bad" else text("fine")

    async with rig(page) as made:
        reader, writer = await made.connect()
        assert (await made.exchange(get("/bad"))).endswith(b"4\r\nhalf\r\n")
        writer.write(get("/good"))
        assert await answer_of(reader) == ("HTTP/1.1 200 OK", b"fine")
    assert "HTTP connection failed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("data", "status"),
    [
        pytest.param(os.urandom(2000).replace(b"\n", b"") + b"\n\n", 400, id="garbage"),
        pytest.param(b"GET / HTTP/1.1\r\nA: " + b"x" * 20_000, 431, id="endless-head"),
        pytest.param(
            get("/", "Content-Length: 99999999", method="PUT") + b"x" * 100_000,
            413,
            id="a-body-too-large",
        ),
    ],
)
async def test_what_we_do_not_take_is_refused_and_the_refusal_arrives(
    data: bytes, status: int
) -> None:
    async with rig() as made:
        out = await made.exchange(data)
        assert out.startswith(f"HTTP/1.1 {status} ".encode())
        assert b"Connection: close\r\n" in out
        await until(lambda: made.room.connections == 0)


async def test_a_body_that_ends_early_is_refused() -> None:
    async with rig() as made:
        reader, writer = await made.connect()
        writer.write(get("/", "Content-Length: 9", method="PUT") + b"x")
        writer.write_eof()
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")


SHORT = Limits(request_seconds=0.05, idle_seconds=0.1, piece_seconds=0.05)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"GET / HT", id="half-a-head"),
        pytest.param(get("/", "Content-Length: 9", method="PUT") + b"x", id="half-a-body"),
    ],
)
async def test_a_client_that_does_not_finish_a_request_is_cut_off(sent: bytes) -> None:
    async with rig(limits=SHORT) as made:
        assert await made.exchange(sent) == b""
        await until(lambda: made.room.connections == 0)


async def test_an_idle_client_is_cut_off() -> None:
    async with rig(limits=SHORT) as made:
        out = await made.exchange(get("/a"))
        assert out.endswith(b"GET /a ")


async def test_a_page_may_take_longer_than_a_request() -> None:
    async def page(_: Request) -> Answer:
        await asyncio.sleep(0.15)
        return text("done")

    async with rig(page, SHORT) as made:
        reader, writer = await made.connect()
        writer.write(get("/"))
        assert await answer_of(reader) == ("HTTP/1.1 200 OK", b"done")


async def test_a_client_that_does_not_read_is_cut_off_and_holds_one_piece() -> None:
    body = bytes(64 << 20)
    made_pieces = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal made_pieces
        while True:
            made_pieces += 1
            yield body[: 1 << 20]

    async with rig(lambda _: Answer(body=endless()), SHORT) as made:
        with socket.create_connection(("127.0.0.1", made.number)) as client:
            client.sendall(get("/"))
            await until(lambda: made_pieces > 0)
            await until(lambda: made.room.connections == 0)
    assert made_pieces < 64


async def test_a_newcomer_takes_the_place_that_was_idle_longest() -> None:
    async with rig(limits=Limits(connections=2)) as made:
        oldest, _ = await made.connect()
        await until(lambda: made.room.connections == 1)
        younger, writer = await made.connect()
        await until(lambda: made.room.connections == 2)
        out = await made.exchange(get("/new", "Connection: close"))
        assert out.endswith(b"GET /new ")
        assert await oldest.read() == b""
        writer.write(get("/younger"))
        assert await answer_of(younger) == ("HTTP/1.1 200 OK", b"GET /younger ")


async def test_a_client_that_is_being_answered_keeps_its_place() -> None:
    asked, go = asyncio.Event(), asyncio.Event()

    async def page(_: Request) -> Answer:
        asked.set()
        await go.wait()
        return text("worth the wait")

    async with rig(page, Limits(connections=1)) as made:
        reader, writer = await made.connect()
        writer.write(get("/"))
        await until(asked.is_set)
        assert await made.exchange(b"") == b""
        go.set()
        assert await answer_of(reader) == ("HTTP/1.1 200 OK", b"worth the wait")


async def test_a_client_that_does_not_read_makes_way(capsys: pytest.CaptureFixture[str]) -> None:
    body = bytes(16 << 20)
    async with rig(lambda _: Answer(body=body), Limits(connections=2)) as made:
        for _ in range(2):
            _, writer = await made.connect()
            writer.transport.pause_reading()  # type: ignore[attr-defined]  # of a TCP transport
            writer.write(get("/"))
        await until(lambda: made.room.connections == 2)
        for _ in range(2):
            out = await made.exchange(get("/new", "Connection: close", method="HEAD"))
            assert out.startswith(b"HTTP/1.1 200 OK")
    assert capsys.readouterr().err.count("Too many connections") == 1


async def test_a_page_knows_both_ends_of_the_connection() -> None:
    async with rig(lambda request: text(str(request.ends))) as made:
        reader, writer = await made.connect()
        writer.write(get("/"))
        expected = Ends(writer.get_extra_info("sockname"), ("127.0.0.1", made.number))
        assert await answer_of(reader) == ("HTTP/1.1 200 OK", str(expected).encode())


async def test_closing_drops_connections_and_frees_the_address() -> None:
    async with rig() as made:
        kept, writer = await made.connect()
        writer.write(get("/"))
        await answer_of(kept)
        made.port.close()
        with listen("127.0.0.1", made.number):
            assert await kept.read() == b""


async def test_clients_wait_while_there_are_no_descriptors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server, "_REST_SECONDS", 0.02)
    async with asyncio.TaskGroup() as tasks:
        listening = Poor(socket.AF_INET, socket.SOCK_STREAM)
        listening.setblocking(False)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = Port((listening,), echo, Room(), tasks)
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        writer.write(get("/"))
        assert await answer_of(reader) == ("HTTP/1.1 200 OK", b"GET / ")
        listening.refusals = 1
        _, other = await asyncio.open_connection(*listening.getsockname())
        await until(lambda: listening.refusals == 0)
        port.close()
        for each in (writer, other):
            await hang_up(each)
    assert "Cannot accept a connection" in capsys.readouterr().err


async def test_the_last_descriptors_are_not_for_clients(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server, "_REST_SECONDS", 0.02)
    async with rig() as made:
        with socket.socket() as client:
            client.setblocking(False)
            with room_for(KEPT):
                await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", made.number))
                assert await asyncio.get_running_loop().sock_recv(client, 1) == b""
        out = await made.exchange(get("/later", "Connection: close"))
        assert out.endswith(b"GET /later ")
    assert capsys.readouterr().err.count("Cannot accept a connection") == 1


class Poor(socket.socket):
    """A listening socket of a process that is out of descriptors for a while."""

    refusals = 2

    def accept(self) -> tuple[socket.socket, object]:
        if self.refusals:
            self.refusals -= 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().accept()


@contextlib.asynccontextmanager
async def serving(number: int, refused: Callable[[ListenError], None]) -> AsyncIterator[None]:
    task = asyncio.ensure_future(serve(f"127.0.0.1:{number}", echo, refused))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_port_in_use_is_tried_until_it_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "RETRY_SECONDS", 0.01)
    refusals: list[str] = []
    taken = listen("127.0.0.1", 0)
    number = taken.getsockname()[1]
    async with serving(number, lambda error: refusals.append(str(error))):
        await until(lambda: len(refusals) > 1)
        taken.close()
        reader, writer = await _connect_soon(number)
        writer.write(get("/"))
        assert await answer_of(reader) == ("HTTP/1.1 200 OK", b"GET / ")
        await hang_up(writer)
    where = f"listen tcp 127.0.0.1:{number}: bind: address already in use"
    assert {where} == set(refusals)
    listen("127.0.0.1", number).close()


async def _connect_soon(number: int) -> Client:
    async with asyncio.timeout(10):
        while True:
            try:
                return await asyncio.open_connection("127.0.0.1", number)
            except ConnectionRefusedError:
                await asyncio.sleep(0.01)


async def test_an_error_of_the_callback_ends_it() -> None:
    def refused(error: ListenError) -> None:
        raise error

    with listen("127.0.0.1", 0) as taken, pytest.raises(ListenError):
        await serve(f"127.0.0.1:{taken.getsockname()[1]}", echo, refused)


async def test_500_at_once_are_all_answered_among_idlers_and_garbage() -> None:
    async with rig(limits=Limits(connections=1024)) as made:
        for _ in range(200):
            await made.connect()
        for _ in range(50):
            _, writer = await made.connect()
            writer.write(os.urandom(500))
        outs = await asyncio.gather(
            *(made.exchange(get(f"/{n}", "Connection: close")) for n in range(500))
        )
        assert all(out.endswith(f"GET /{n} ".encode()) for n, out in enumerate(outs))
