"""A netlink socket whose answers are written beforehand."""

from typing import Self


class FakeLink:
    """A socket on which the kernel has answered already, whatever is asked."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = answers
        self._waiting: list[bytes] = []
        self.closed = False

    def send(self, data: bytes) -> int:
        self._waiting = list(self._answers)
        return len(data)

    def recv_into(self, buffer: memoryview) -> int:
        if not self._waiting:
            raise BlockingIOError
        data = self._waiting.pop(0)
        buffer[: len(data)] = data
        return len(data)

    def getsockname(self) -> tuple[int, int]:
        return (1, 0)

    def getsockopt(self, _level: int, _option: int) -> int:
        return 1 << 23

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.closed = True
