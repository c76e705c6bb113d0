"""HTTP/2 in front of the test API server, as the real one offers it: TLS, and h2 by ALPN.

Every stream is a request of its own that the server behind answers, whose faults show on the
stream: a reset connection there is a reset stream here. The faults of HTTP/2 itself are methods of
the front. Who does not offer h2 gets HTTP/1.1.
"""

import asyncio
import ssl
from collections.abc import Callable
from types import TracebackType
from typing import Self

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions

from fakes.apiserver import FakeApiServer
from fakes.apistreams import reset
from fakes.certs import ServerTLS
from fakes.http2stream import FrontStream, request_on

_INTERNAL_ERROR = h2.errors.ErrorCodes.INTERNAL_ERROR


class FrontConnection(asyncio.Protocol):
    """The server's end of one connection."""

    def __init__(self, front: "Http2Front") -> None:
        self._front = front
        config = h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        self.h2 = h2.connection.H2Connection(config)
        self.transport: asyncio.Transport | None = None
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self.pings = 0
        self._bodies: dict[int, bytes] = {}
        self._heads: dict[int, dict[str, str]] = {}
        self._room = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._front.connections.append(self)
        self._front.accepted += 1
        self.h2.initiate_connection()
        self.flush()

    def connection_lost(self, _exc: Exception | None) -> None:
        self._front.connections.remove(self)
        for task in self.tasks.values():
            task.cancel()

    def data_received(self, data: bytes) -> None:
        if self._front.deaf:
            return
        for event in self.h2.receive_data(data):
            match event:
                case h2.events.RequestReceived(stream_id=int(number)):
                    pairs = event.headers or []
                    self._heads[number] = {str(name): str(value) for name, value in pairs}
                    self._bodies[number] = b""
                case h2.events.DataReceived(stream_id=int(number)):
                    self._bodies[number] += event.data or b""
                    self.h2.acknowledge_received_data(event.flow_controlled_length or 0, number)
                case h2.events.StreamEnded(stream_id=int(number)):
                    self.tasks[number] = asyncio.create_task(self._serve(number))
                case h2.events.StreamReset(stream_id=int(number)) if number in self.tasks:
                    self.tasks[number].cancel()
                case h2.events.PingReceived():
                    self.pings += 1
                case h2.events.WindowUpdated() | h2.events.RemoteSettingsChanged():
                    self._room.set()
        self.flush()

    def flush(self) -> None:
        data = self.h2.data_to_send()
        if data and self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    async def _serve(self, number: int) -> None:
        try:
            await self._answer(number)
        finally:
            del self.tasks[number]

    async def _answer(self, number: int) -> None:
        """Have the server behind answer."""
        head, body = self._heads.pop(number), self._bodies.pop(number)
        if self._front.refuse_next:
            self._front.refuse_next -= 1
            self.reset_stream(number, h2.errors.ErrorCodes.REFUSED_STREAM)
            return
        request = request_on(FrontStream(self, number), head, body)
        try:
            response = await self._front.behind.answer(request)
            await response.prepare(request)
            await response.write_eof()
        except ConnectionResetError:  # the client has left, or a fault has reset the stream
            pass

    def send_headers(self, number: int, headers: list[tuple[str, str]]) -> None:
        """Begin a response."""
        self._try(lambda: self.h2.send_headers(number, headers))

    async def send(self, number: int, data: bytes) -> None:
        """Send a part of a body, as much at a time as the client has room for."""
        while data:
            room = min(self._window(number), self.h2.max_outbound_frame_size)
            if room <= 0:
                self._room.clear()
                await self._room.wait()
                continue
            piece, data = data[:room], data[room:]
            self._send_piece(number, piece)

    def end(self, number: int) -> None:
        """End a response."""
        self._try(lambda: self.h2.end_stream(number))

    def reset_stream(self, number: int, code: h2.errors.ErrorCodes = _INTERNAL_ERROR) -> None:
        """End a stream within a response."""
        self._try(lambda: self.h2.reset_stream(number, code))

    def _window(self, number: int) -> int:
        try:
            return self.h2.local_flow_control_window(number)
        except h2.exceptions.ProtocolError as error:
            raise ConnectionResetError from error

    def _send_piece(self, number: int, piece: bytes) -> None:
        self._try(lambda: self.h2.send_data(number, piece))

    def _try(self, send: Callable[[], None]) -> None:
        try:
            send()
        except h2.exceptions.ProtocolError as error:
            raise ConnectionResetError from error
        self.flush()


class _Negotiated(asyncio.Protocol):
    """Hands a connection to the protocol that was agreed on."""

    def __init__(self, front: "Http2Front") -> None:
        self._front = front

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        agreed = transport.get_extra_info("ssl_object").selected_alpn_protocol()
        chosen = FrontConnection(self._front) if agreed == "h2" else self._front.behind.http1()
        transport.set_protocol(chosen)
        chosen.connection_made(transport)


class Http2Front:
    """Listens on 127.0.0.1 for as long as the context lasts."""

    def __init__(self, behind: FakeApiServer, tls: ServerTLS) -> None:
        self.behind = behind
        self.connections: list[FrontConnection] = []
        self.accepted = 0
        """How many connections there have been."""
        self.deaf = False
        """Answer nothing any more, not even pings."""
        self.refuse_next = 0
        """So many streams are refused before they are looked at."""
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(tls.pair.cert, tls.pair.key)
        self._context.set_alpn_protocols(["h2", "http/1.1"])
        self._listener: asyncio.Server | None = None
        self._port = 0

    async def __aenter__(self) -> Self:
        await self.resume()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        tasks = [task for each in self.connections for task in each.tasks.values()]
        await self.pause()
        if tasks:
            await asyncio.wait(tasks)

    @property
    def url(self) -> str:
        """Where the front listens."""
        return f"https://127.0.0.1:{self._port}"

    async def resume(self) -> None:
        """Listen, on the same port as before if there was one."""
        self._listener = await asyncio.get_running_loop().create_server(
            lambda: _Negotiated(self), "127.0.0.1", self._port, ssl=self._context
        )
        self._port = self._listener.sockets[0].getsockname()[1]

    async def pause(self) -> None:
        """Stop listening and reset all connections, as a server that is killed."""
        if self._listener is not None:
            self._listener.close()
        for connection in self.connections:
            reset(connection.transport)
        while self.connections:
            await asyncio.sleep(0.001)

    def go_away(self, *, served: bool) -> None:
        """Announce that the connections end: their streams are served to their end, or not."""
        for connection in self.connections:
            last = None if served else 0
            connection.h2.close_connection(last_stream_id=last)
            connection.flush()
            # h2 takes the connection for closed from here on; a real server goes on.
            machine = connection.h2.state_machine
            machine.state = h2.connection.ConnectionState.CLIENT_OPEN

    def reset_streams(self, code: h2.errors.ErrorCodes = _INTERNAL_ERROR) -> None:
        """Reset all streams; the connections stay."""
        for connection in self.connections:
            for number, task in list(connection.tasks.items()):
                task.cancel()
                connection.h2.reset_stream(number, code)
            connection.flush()

    def write(self, data: bytes) -> None:
        """Write bytes that are no frames, or none of ours, to all connections."""
        for connection in self.connections:
            assert connection.transport is not None
            connection.transport.write(data)
