"""Finds and reads the files of manifests. An edge: the only reader of those files.

Files are found below the paths whose names end as manifests do; hidden names are left out, links
are followed. That is what a mounted ConfigMap needs: its files are links through `..data`.
"""

import os
import stat
from collections.abc import Callable, Iterator, Sequence

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


class ManifestPaths(msgspec.Struct, frozen=True):
    """The files, in order of their names, and the paths that cannot be read."""

    files: dict[str, Signature]
    unreachable: dict[str, str]
    """Path -> why. Whether there are files below it is not known."""


def scan(paths: Sequence[str]) -> ManifestPaths:
    """What there is below the paths, each a directory or a file."""
    files: dict[str, Signature] = {}
    unreachable: dict[str, str] = {}

    def failed(error: OSError) -> None:
        unreachable[error.filename] = error.strerror or type(error).__name__

    for root in map(os.path.normpath, paths):
        is_directory = os.path.isdir(root)  # noqa: PTH112  # paths are texts here
        for path in _manifests_below(root, failed) if is_directory else [root]:
            try:
                status = os.stat(path)  # noqa: PTH116
            except OSError as error:
                if not (is_directory and isinstance(error, FileNotFoundError)):
                    failed(error)  # else it is a link to nothing, or gone a moment ago
                continue
            if stat.S_ISREG(status.st_mode) or not is_directory:
                identity = (status.st_dev, status.st_ino)
                files[path] = Signature(
                    identity, status.st_size, status.st_mtime_ns, status.st_ctime_ns
                )
    return ManifestPaths(dict(sorted(files.items())), unreachable)


def _manifests_below(root: str, failed: Callable[[OSError], None]) -> Iterator[str]:
    """Everything below a directory that has the name of a manifest."""
    above = {root: {os.path.realpath(root)}}
    for directory, below, names in os.walk(root, onerror=failed, followlinks=True):
        around = above.pop(directory)
        for name in [*below]:
            path = os.path.join(directory, name)  # noqa: PTH118
            real = os.path.realpath(path)
            if name.startswith(".") or real in around:  # a link back to what contains it
                below.remove(name)
            else:
                above[path] = around | {real}
        for name in names:
            if name.endswith(SUFFIXES) and not name.startswith("."):
                yield os.path.join(directory, name)  # noqa: PTH118


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
