"""Finds and reads the files of manifests. An edge: the only reader of those files.

Files are found below the paths whose names end as manifests do; hidden names are left out, links
are followed. That is what a mounted ConfigMap needs: its files are links through `..data`.
"""

import contextlib
import os
import stat
from collections.abc import Sequence

import msgspec

from kubeproxy.cluster.manifests.documents import BrokenManifest, Document, parse

SUFFIXES = (".yaml", ".yml", ".json")

RECENT_NS = 100_000_000
"""Two writes within this time may leave the same times on a file: its clock has coarse ticks."""


class Signature(msgspec.Struct, frozen=True):
    """The metadata of a file; the content is read again when it differs."""

    identity: tuple[int, int]
    size: int
    modified_ns: int
    changed_ns: int


class Scan(msgspec.Struct, frozen=True):
    """The files, in order of their names, and the paths that cannot be read."""

    files: dict[str, Signature]
    unreachable: dict[str, str]
    """Path -> why. Whether there are files below it is not known."""


def scan(paths: Sequence[str]) -> Scan:
    """What there is below the paths, each a directory or a file."""
    files: dict[str, Signature] = {}
    unreachable: dict[str, str] = {}
    for path in paths:
        normal = os.path.normpath(path)
        try:
            if os.path.isdir(normal):  # noqa: PTH112  # paths are texts here
                _scan_directory(normal, files, unreachable)
            else:
                files[normal] = _signature(normal)
        except OSError as error:
            unreachable[normal] = error.strerror or type(error).__name__
    return Scan(dict(sorted(files.items())), unreachable)


def _scan_directory(root: str, files: dict[str, Signature], unreachable: dict[str, str]) -> None:
    """Add what is below a directory; only the directory itself raises when it cannot be read."""
    waiting = [(root, frozenset[tuple[int, int]]())]
    while waiting:
        directory, above = waiting.pop()
        try:
            status = os.stat(directory)  # noqa: PTH116
            identity = (status.st_dev, status.st_ino)
            if identity in above:
                continue  # a link back to a directory that contains it
            entries = _visible(directory, unreachable)
        except OSError as error:
            if directory == root:
                raise
            unreachable[directory] = error.strerror or type(error).__name__
            continue
        waiting += [(path, above | {identity}) for path, mode in entries if stat.S_ISDIR(mode)]
        for path, mode in entries:
            if stat.S_ISREG(mode) and path.endswith(SUFFIXES):
                _add(path, files)


def _visible(directory: str, unreachable: dict[str, str]) -> list[tuple[str, int]]:
    """The entries that are not hidden, with their modes; a link to nothing is no entry."""
    visible: list[tuple[str, int]] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            try:
                visible.append((entry.path, entry.stat().st_mode))
            except FileNotFoundError:
                continue
            except OSError as error:
                if entry.name.endswith(SUFFIXES):
                    unreachable[entry.path] = error.strerror or type(error).__name__
    return visible


def _add(path: str, files: dict[str, Signature]) -> None:
    with contextlib.suppress(FileNotFoundError):  # gone a moment ago
        files[path] = _signature(path)


def _signature(path: str) -> Signature:
    status = os.stat(path)  # noqa: PTH116
    identity = (status.st_dev, status.st_ino)
    return Signature(identity, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def read(path: str) -> bytes | None:
    """The content of a file, None when it is gone; raises `BrokenManifest` if it is unreadable."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        reason = f"the file cannot be read: {error.strerror}"
        raise BrokenManifest(path, 1, 1, reason) from error


def parse_file(path: str, data: bytes) -> list[Document]:
    """The documents in the content of a file; raises `BrokenManifest`."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line, column = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
        raise BrokenManifest(path, line, column, "the file is not UTF-8 text") from error
    return parse(text, path)
