"""A stream of bytes, cut anywhere -> its lines. No I/O.

Every byte is copied at most twice, whatever the size of the chunks: the pieces of an unfinished
line wait in a list and are joined once.
"""

from kubeproxy.base.errors import ApiServerError

LONGEST_LINE = 16 * 1024 * 1024
"""Far above the 1.5 MiB that etcd stores in one object: a longer line is no API server's event."""


class LineTooLong(ApiServerError):
    """The stream does not consist of lines as an API server writes them."""

    def __init__(self) -> None:
        super().__init__(
            f"the API server sent a line of more than {LONGEST_LINE} bytes in a watch;"
            " check that the server URL leads to a Kubernetes API server"
        )


class LineSplitter:
    """Keeps the beginning of a line until its end arrives."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._waiting = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that are complete now, without their ends; blank ones are left out."""
        first, *rest = chunk.split(b"\n")
        self._pieces.append(first)
        self._waiting += len(first)
        if self._waiting > LONGEST_LINE:
            raise LineTooLong
        if not rest:
            return []
        *middle, last = rest
        lines = [b"".join(self._pieces), *middle]
        self._pieces = [last]
        self._waiting = len(last)
        return [line for line in lines if line.strip()]

    def finish(self) -> bytes:
        """What stood behind the last line end; empty when the stream ended with a line."""
        rest = b"".join(self._pieces)
        self._pieces = []
        self._waiting = 0
        return rest.strip()
