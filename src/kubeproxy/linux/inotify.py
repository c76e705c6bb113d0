"""The kernel's inotify, through the C library: paths and masks in, events out.

An edge. What is watched, and why, is the business of `filewatch`.
"""

import asyncio
import ctypes
import errno
import os
import struct
from collections.abc import Mapping

import msgspec

CLOSE_WRITE = 0x8
MOVED_FROM = 0x40
MOVED_TO = 0x80
CREATE = 0x100
DELETE = 0x200
DELETE_SELF = 0x400
MOVE_SELF = 0x800
UNMOUNT = 0x2000
Q_OVERFLOW = 0x4000
IGNORED = 0x8000
ONLYDIR = 0x0100_0000
MASK_ADD = 0x2000_0000

_HEADER = struct.Struct("iIII")
_libc = ctypes.CDLL(None, use_errno=True)


class InotifyUnavailableError(OSError):
    """The kernel has no more inotify instances or watches."""


class DirectoryWatch(msgspec.Struct, frozen=True):
    """What is watched about one directory."""

    mask: int
    names: frozenset[str] = frozenset()
    """The entries of the directory that matter; with `any_name` all do."""
    any_name: bool = False

    def union(self, other: "DirectoryWatch") -> "DirectoryWatch":
        """A watch for the events of both."""
        any_name = self.any_name or other.any_name
        return DirectoryWatch(self.mask | other.mask, self.names | other.names, any_name)

    def sees(self, name: str) -> bool:
        """Whether an event matters: one about the directory itself always does."""
        return self.any_name or not name or name in self.names


class Inotify:
    """One inotify instance with its watches."""

    def __init__(self, watches: Mapping[str, DirectoryWatch]) -> None:
        self._by_descriptor: dict[int, DirectoryWatch] = {}
        self._fd: int = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise InotifyUnavailableError(ctypes.get_errno(), "inotify_init1")
        try:
            for directory, watch in watches.items():
                self._add(directory, watch)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Forget all watches."""
        os.close(self._fd)

    async def wait_readable(self) -> None:
        """Wait until there are events to read."""
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(self._fd, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(self._fd)

    def read(self) -> int:
        """The masks of all waiting events that matter, or'ed; 0 when there is none."""
        seen = 0
        while True:
            try:
                data = os.read(self._fd, 65536)
            except BlockingIOError:
                return seen
            offset = 0
            while offset < len(data):
                descriptor, mask, _, length = _HEADER.unpack_from(data, offset)
                offset += _HEADER.size + length
                name = os.fsdecode(data[offset - length : offset].rstrip(b"\0"))
                watch = self._by_descriptor.get(descriptor)
                if mask & Q_OVERFLOW or (watch is not None and watch.sees(name)):
                    seen |= mask

    def _add(self, directory: str, watch: DirectoryWatch) -> None:
        # Two names of one directory share a descriptor, so masks are added, never replaced.
        flags = ONLYDIR | MASK_ADD
        descriptor = _libc.inotify_add_watch(self._fd, os.fsencode(directory), watch.mask | flags)
        if descriptor >= 0:
            known = self._by_descriptor.get(descriptor)
            self._by_descriptor[descriptor] = watch.union(known) if known else watch
            return
        error = ctypes.get_errno()
        if error in (errno.ENOENT, errno.ENOTDIR):
            return  # gone since it was found, which is an event of its parent
        if error == errno.EACCES and not watch.names and not watch.any_name:
            return  # a directory that may be passed but not read, on the way to one that may
        raise InotifyUnavailableError(error, "inotify_add_watch", directory)
