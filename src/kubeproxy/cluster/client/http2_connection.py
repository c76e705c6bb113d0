"""One HTTP/2 connection: frames in, responses out. h2 speaks the protocol."""

import asyncio
import ssl
from collections.abc import Mapping
from functools import partial

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from kubeproxy.cluster.client import frames
from kubeproxy.cluster.client.dial import speaks_http2
from kubeproxy.cluster.client.failures import Failure, RequestFailed
from kubeproxy.cluster.client.http2_stream import Stream
from kubeproxy.cluster.client.transport import Pings, Request, Route

STREAM_WINDOW = 2 * 1024 * 1024
"""Bytes that a server may send ahead on one stream: the most that a slow reader has in memory."""
CONNECTION_WINDOW = 1 << 30
"""No limit: a stream that is not read must not hold up the others."""

_SETTINGS = {
    h2.settings.SettingCodes.ENABLE_PUSH: 0,
    h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
    h2.settings.SettingCodes.MAX_FRAME_SIZE: frames.MAX_FRAME_SIZE,
}
_CONFIG = h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
_REFUSED = h2.errors.ErrorCodes.REFUSED_STREAM


class Unprocessed(RequestFailed):
    """The server has not looked at the request: it can be sent again."""


class Http2Response:
    """A response, and the stream that it arrives on."""

    def __init__(self, connection: "Connection", stream: Stream, head: Mapping[str, str]) -> None:
        self._connection = connection
        self._stream = stream
        self.status = int(head[":status"])
        self.headers = head

    async def read(self) -> bytes:
        """The next bytes as soon as there are any; empty at the end."""
        stream = self._stream
        while not stream.pieces:
            if stream.ended:
                return b""
            await stream.changed()
        data, size = stream.take()
        self._connection.consumed(stream, size)
        return data

    def close(self) -> None:
        """Tell the server that the rest is not wanted; the connection stays."""
        self._connection.leave(self._stream)

    def keep_alive(self) -> None:
        """Pings do that, for the whole connection."""


class Connection(asyncio.Protocol):
    """One connection: frames in, responses out. Its first frame is sent when it is connected."""

    def __init__(self, context: ssl.SSLContext, pings: Pings) -> None:
        self.context = context
        self.usable = True
        """Whether a request may be sent on it."""
        self._pings = pings
        self._h2 = h2.connection.H2Connection(_CONFIG)
        self._splitter = frames.FrameSplitter()
        self._streams: dict[int, Stream] = {}
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._credit = 0
        """As that of streams, of all of them together."""
        self._last_received = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._room = asyncio.Event()
        """Whether the server may have made room for what we send."""

    # --- requests -----------------------------------------------------------------------------

    async def request(self, request: Request, route: Route) -> Http2Response:
        """The response, when its head has arrived."""
        if not self.usable:
            raise Unprocessed(Failure.NO_RESPONSE)
        headers = [
            (":method", request.method),
            (":scheme", route.scheme),
            (":authority", route.authority),
            (":path", request.target),
            *((name.lower(), value) for name, value in request.headers),
        ]
        try:
            stream = Stream(self._h2.get_next_available_stream_id())
            self._h2.send_headers(stream.id, headers, end_stream=not request.body)
        except (h2.exceptions.ProtocolError, UnicodeError) as error:
            raise RequestFailed(Failure.OTHER, error) from error
        self._streams[stream.id] = stream
        self._flush()
        try:
            if request.body:
                await self._send_body(stream, request.body)
            while stream.head is None:
                await stream.changed()
        except BaseException:
            self.leave(stream)
            raise
        return Http2Response(self, stream, stream.head)

    async def _send_body(self, stream: Stream, body: bytes) -> None:
        """Send as much at a time as the server has room for, unless it has answered already."""
        while body and not stream.over and stream.head is None:
            room = min(
                self._h2.local_flow_control_window(stream.id), self._h2.max_outbound_frame_size
            )
            if room <= 0:
                self._room.clear()
                await self._room.wait()
                continue
            self._h2.send_data(stream.id, body[:room], end_stream=len(body) <= room)
            self._flush()
            body = body[room:]

    def leave(self, stream: Stream) -> None:
        """Forget a stream; tell the server unless it has ended."""
        if self._streams.pop(stream.id, None) is None:
            return
        self.consumed(stream, stream.unread)
        if not stream.over:
            self._h2.reset_stream(stream.id, h2.errors.ErrorCodes.CANCEL)
        self._flush()
        self._close_if_done()

    def consumed(self, stream: Stream, size: int) -> None:
        """So much was read: the server may send as much again."""
        stream.unread -= size
        if stream.direct:
            stream.credit += size
            self._credit += size
            if stream.credit >= STREAM_WINDOW // 2 and not stream.over:
                self._write(frames.window_update(stream.id, stream.credit))
                stream.credit = 0
            if self._credit >= CONNECTION_WINDOW // 2:
                self._write(frames.window_update(0, self._credit))
                self._credit = 0
        elif size and self.open:
            self._h2.acknowledge_received_data(size, stream.id)
            self._flush()

    def retire(self) -> None:
        """Send no more requests on it, and close it when the last response has ended."""
        self.usable = False
        self._close_if_done()

    @property
    def open(self) -> bool:
        """Whether there is a socket to close."""
        return self._transport is not None and not self._transport.is_closing()

    def _close_if_done(self) -> None:
        if not self.usable and not self._streams and self._transport is not None:
            self._transport.close()

    def _flush(self) -> None:
        self._write(self._h2.data_to_send())

    def _write(self, data: bytes) -> None:
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    # --- what the event loop calls ------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say who we are, to a server that has agreed on HTTP/2."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  # for the type checker
        self._transport = transport
        if not speaks_http2(transport):
            return
        self._h2.local_settings = h2.settings.Settings(client=True, initial_values=_SETTINGS)
        self._h2.max_inbound_frame_size = frames.MAX_FRAME_SIZE
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(CONNECTION_WINDOW)
        self._flush()
        self._last_received = self._loop.time()
        if self._pings.idle > 0:
            self._timer = self._loop.call_later(self._pings.idle, self._check_idle)

    def data_received(self, data: bytes) -> None:
        """Handle the frames that are complete."""
        self._last_received = self._loop.time()
        try:
            for frame in self._splitter.feed(data):
                self._receive(frame)
        except (h2.exceptions.ProtocolError, frames.InvalidFrame) as error:
            self._flush()  # h2 has a GOAWAY with the reason ready
            self._break(RequestFailed(Failure.NOT_HTTP, error))
            return
        self._flush()
        self._close_if_done()

    def connection_lost(self, exc: Exception | None) -> None:
        """Whatever is under way has failed."""
        self._lose(exc if isinstance(exc, OSError) else None)

    # --- frames -------------------------------------------------------------------------------

    def _receive(self, frame: frames.Frame) -> None:
        if frame.type == frames.GOAWAY:
            self._go_away(frames.last_stream_of(frame))
            return
        encoded: bytes = frame.encoded
        stream = self._streams.get(frame.stream_id) if frame.type == frames.DATA else None
        if stream is not None and stream.direct:
            if stream.unread + frame.size > STREAM_WINDOW:
                raise frames.InvalidFrame("more data than the window allows")
            stream.add(frames.content_of(frame), frame.size)
            if not frame.ends_stream:
                return
            encoded = frames.end_of_stream(frame.stream_id)
        for event in self._h2.receive_data(encoded):
            self._handle(event)

    def _handle(self, event: h2.events.Event) -> None:
        """What h2 has found; there is no stream for what we have left."""
        stream = self._streams.get(getattr(event, "stream_id", None) or 0)
        match event:
            case h2.events.DataReceived():
                size = event.flow_controlled_length or 0
                if stream is not None:
                    stream.add(event.data or b"", size)
                elif size and event.stream_id is not None:
                    self._h2.acknowledge_received_data(size, event.stream_id)
            case h2.events.ResponseReceived() if stream is not None:
                stream.start(event.headers or ())
            case h2.events.StreamEnded() if stream is not None:
                stream.end()
            case h2.events.StreamReset() if stream is not None:
                stream.fail(_reset(event.error_code))
                self._room.set()
            case h2.events.WindowUpdated() | h2.events.RemoteSettingsChanged():
                self._room.set()

    def _go_away(self, last: int) -> None:
        self.usable = False
        for stream in list(self._streams.values()):
            if stream.id > last:
                stream.fail(Unprocessed(Failure.NO_RESPONSE))

    # --- the end ------------------------------------------------------------------------------

    def _check_idle(self) -> None:
        """Send a ping when nothing came for long."""
        due = self._last_received + self._pings.idle
        if self._loop.time() < due:
            self._timer = self._loop.call_at(due, self._check_idle)
            return
        self._h2.ping(bytes(8))
        self._flush()
        self._timer = self._loop.call_later(
            self._pings.answer, partial(self._check_answer, self._loop.time())
        )

    def _check_answer(self, asked: float) -> None:
        if self._last_received >= asked:
            self._check_idle()
        else:
            self._break(RequestFailed(Failure.SILENT))

    def _break(self, failure: RequestFailed) -> None:
        """Give the connection up, without waiting for the peer."""
        for stream in self._streams.values():
            stream.fail(failure)
        self._lose(None)
        if self._transport is not None:
            self._transport.abort()

    def _lose(self, error: OSError | None) -> None:
        self.usable = False
        for stream in self._streams.values():
            lost = Failure.NO_RESPONSE if stream.head is None else Failure.CUT
            stream.fail(error or RequestFailed(lost))
        self._room.set()
        if self._timer is not None:
            self._timer.cancel()

    async def close(self) -> None:
        """End it at once; waits until the socket is closed."""
        self._lose(None)
        if self._transport is not None:
            self._transport.abort()
            await asyncio.sleep(0)


def _reset(code: int | None) -> RequestFailed:
    """What a reset stream means; `code` is one of HTTP/2."""
    if code == _REFUSED:
        return Unprocessed(Failure.NO_RESPONSE)
    name = code.name if isinstance(code, h2.errors.ErrorCodes) else str(code)
    return RequestFailed(Failure.RESET, f"reset with {name}")
