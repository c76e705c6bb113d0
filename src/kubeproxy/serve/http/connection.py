"""One client's connection, as a task: read a request, answer it, and again.

Nothing is read while an answer is being written, and an answer is written piece by piece, so a
client that does not read, or reads slowly, holds one request and one answer, for a limited time.
"""

import asyncio
import contextlib
import inspect
import socket
import time
from collections.abc import AsyncIterable

import msgspec

from kubeproxy.base import klog
from kubeproxy.serve.http.answer import (
    LAST_CHUNK,
    Answer,
    Page,
    chunk,
    encode_head,
    is_chunked,
    keeps_open,
    refusal,
    text,
)
from kubeproxy.serve.http.places import Caller, ConnectionStage
from kubeproxy.serve.http.request import BadRequest, Ends, Head, Request, end_of_head, parse_head
from kubeproxy.serve.http.room import Room

_READ = 8192
_PIECE = 1 << 16
_CLOSING_BYTES = 1 << 18
_CLOSING_SECONDS = 0.5


class HttpConnection:
    """The requests and answers of one connection; its socket is closed by the port."""

    def __init__(
        self, client: socket.socket, ends: Ends, caller: Caller, page: Page, room: Room
    ) -> None:
        self._client = client
        self._ends = ends
        self._caller = caller
        self._page = page
        self._room = room
        self._limits = room.limits
        self._loop = asyncio.get_running_loop()
        self._deadline = asyncio.timeout(None)
        self._read = bytearray()
        self._stage = ConnectionStage.FIRST

    async def run(self) -> None:
        """Answer until the connection ends.

        An error ends this connection and nothing else: its task is one of the daemon's.
        """
        try:
            async with self._deadline:
                self._allow(self._limits.request_seconds)
                while await self._exchange():
                    limits, begun = self._limits, bool(self._read)
                    self._allow(limits.request_seconds if begun else limits.idle_seconds)
        except OSError:  # the client is gone, or out of time
            pass
        except Exception as error:  # noqa: BLE001  # no request may end the proxying
            klog.error("HTTP connection failed", err=repr(error), peer=self._ends.client[0])

    async def _exchange(self) -> bool:
        """One request and its answer; whether there may be another."""
        self._room.note(self._caller, ConnectionStage.WAITING)
        try:
            head = await self._receive_head()
            if head is None:
                return False
            request = await self._receive_body(head)
        except BadRequest as error:
            await self._send(refusal(error))
            await self._close_gently()
            return False
        self._deadline.reschedule(None)
        self._room.note(self._caller, self._stage)
        await self._room.wait_turn(self._caller, self._stage)
        answer = await self._answer(request)
        await self._write(answer, head)
        self._stage = ConnectionStage.AGAIN
        return keeps_open(answer, head)

    async def _receive_head(self) -> Head | None:
        """The next request's head; None when the client has closed."""
        limits = self._limits
        end = end_of_head(self._read, 0)
        while end is None:
            searched = len(self._read)
            if searched > limits.head_bytes:
                raise BadRequest(431)
            if not await self._receive():
                return None
            if not searched:
                self._allow(limits.request_seconds)
            end = end_of_head(self._read, searched)
            if end is None:
                # Reading small pieces is work, too.
                await self._room.wait_turn(self._caller, self._stage)
        head = parse_head(bytes(self._read[:end]))
        del self._read[:end]
        return head

    async def _receive_body(self, head: Head) -> Request:
        if not head.length:
            return head.request
        if head.length > self._limits.body_bytes:
            raise BadRequest(413)
        if head.expects_continue:
            await self._send(b"HTTP/1.1 100 Continue\r\n\r\n")
        while len(self._read) < head.length:
            if not await self._receive():
                raise BadRequest(400)
            await self._room.wait_turn(self._caller, self._stage)
        body = bytes(self._read[: head.length])
        del self._read[: head.length]
        return msgspec.structs.replace(head.request, body=body)

    async def _answer(self, request: Request) -> Answer:
        try:
            named = msgspec.structs.replace(request, peer=self._ends.client[0], ends=self._ends)
            answer = self._page(named)
            return await answer if inspect.isawaitable(answer) else answer
        except Exception as error:  # noqa: BLE001  # a page that fails must not end the proxying
            klog.error("Failed to answer a request", err=repr(error), path=request.path)
            return text("500 internal server error\n", 500)

    async def _write(self, answer: Answer, head: Head) -> None:
        out = encode_head(answer, head, time.time())
        if head.request.method == "HEAD":
            await self._send(out)
        elif isinstance(answer.body, bytes):
            # One packet for most; a large body is not copied for each client.
            first = answer.body[:_PIECE]
            await self._send(out + first)
            await self._send(answer.body, len(first))
        else:
            await self._send(out)
            await self._stream(answer.body, in_chunks=is_chunked(answer, head))

    async def _stream(self, body: AsyncIterable[bytes], *, in_chunks: bool) -> None:
        async for piece in body:
            if piece:
                await self._send(chunk(piece) if in_chunks else piece)
                self._deadline.reschedule(None)
                self._stage = ConnectionStage.AGAIN
                self._room.note(self._caller, self._stage)
            # A piece is work, as an answer is.
            await self._room.wait_turn(self._caller, self._stage)
        if in_chunks:
            await self._send(LAST_CHUNK)

    async def _receive(self) -> bool:
        """Read some more; False at the end."""
        got = await self._loop.sock_recv(self._client, _READ)
        self._read += got
        return bool(got)

    async def _send(self, data: bytes, begin: int = 0) -> None:
        view = memoryview(data)
        for start in range(begin, len(data), _PIECE):
            self._allow(self._limits.piece_seconds)
            self._room.note(self._caller, ConnectionStage.WAITING)
            await self._loop.sock_sendall(self._client, view[start : start + _PIECE])

    async def _close_gently(self) -> None:
        """Let the client read the answer: closing with unread bytes would discard it."""
        self._allow(_CLOSING_SECONDS)
        with contextlib.suppress(OSError):
            self._client.shutdown(socket.SHUT_WR)
            left = _CLOSING_BYTES
            while left > 0 and (got := await self._loop.sock_recv(self._client, _READ)):
                left -= len(got)

    def _allow(self, seconds: float) -> None:
        self._deadline.reschedule(self._loop.time() + seconds)
