"""One request of an HTTP/2 connection: its response, as far as it has arrived."""

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping

from kubeproxy.cluster.client.failures import RequestFailed
from kubeproxy.cluster.client.transport import READ_SIZE


class Stream:
    """A request under way: its response as far as it has arrived."""

    def __init__(self, stream_id: int) -> None:
        self.id = stream_id
        self.head: Mapping[str, str] | None = None
        self.pieces: deque[bytes] = deque()
        self.unread = 0
        """Bytes, as flow control counts them."""
        self.direct = False
        """Whether its DATA is not shown to h2, which would check the length of a response."""
        self.credit = 0
        """Bytes that were read of a direct stream, and that the server does not know of yet."""
        self.ended = False
        self.failure: RequestFailed | OSError | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def over(self) -> bool:
        """Whether nothing more will arrive."""
        return self.ended or self.failure is not None

    def start(self, headers: Iterable[tuple[str | bytes, str | bytes]]) -> None:
        """The head of the response has arrived."""
        self.head = {str(name): str(value) for name, value in headers}
        self.direct = "content-length" not in self.head
        self._wake()

    def add(self, piece: bytes, size: int) -> None:
        """A piece of the body has arrived, of so many bytes with its padding."""
        self.unread += size
        if piece:
            self.pieces.append(piece)
            self._wake()

    def take(self) -> tuple[bytes, int]:
        """Some of what has arrived, and how much that is with its padding."""
        pieces = [self.pieces.popleft()]
        size = len(pieces[0])
        while self.pieces and size + len(self.pieces[0]) <= READ_SIZE:
            pieces.append(self.pieces.popleft())
            size += len(pieces[-1])
        return b"".join(pieces), size if self.pieces else self.unread

    def end(self) -> None:
        """The whole response has arrived."""
        self.ended = True
        self._wake()

    def fail(self, failure: RequestFailed | OSError) -> None:
        """The rest will not arrive; what has arrived is still read."""
        if not self.over:
            self.failure = failure
            self._wake()

    def _wake(self) -> None:
        """Let the reader look again."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def changed(self) -> None:
        """Wait until something has arrived. Raises what the stream failed with."""
        if self.failure is not None:
            raise self.failure
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter
