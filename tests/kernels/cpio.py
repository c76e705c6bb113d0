"""Archives that the kernel unpacks into memory before anything else: the "newc" kind of cpio."""

from collections.abc import Iterable

import msgspec

_MAGIC = b"070701"
_DIRECTORY, _FILE, _DEVICE = 0o040755, 0o100755, 0o020600
_END = "TRAILER!!!"


class Entry(msgspec.Struct, frozen=True):
    """A file, or a directory when `content` is None; `device` is that of a character device."""

    name: str
    content: bytes | None = None
    device: tuple[int, int] | None = None

    @property
    def mode(self) -> int:
        """The kind and the permissions."""
        if self.device is not None:
            return _DEVICE
        return _DIRECTORY if self.content is None else _FILE


def archive(entries: Iterable[Entry]) -> bytes:
    """The archive; it may follow another one, and be followed by another."""
    pieces = [_record(number, entry) for number, entry in enumerate(entries, 1)]
    return _padded(b"".join(pieces) + _record(0, Entry(_END, b"")), 512)


def _record(number: int, entry: Entry) -> bytes:
    name = entry.name.encode() + b"\0"
    content = entry.content or b""
    major, minor = entry.device or (0, 0)
    mode = 0 if entry.name == _END else entry.mode
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, major, minor, len(name), 0)
    head = _MAGIC + b"".join(b"%08X" % field for field in fields) + name
    return _padded(head, 4) + _padded(content, 4)


def _padded(data: bytes, unit: int) -> bytes:
    return data + bytes(-len(data) % unit)
