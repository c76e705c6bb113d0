"""Files -> one compressed tar, in memory, with a list of what is in it and what is not."""

import gzip
import io
import tarfile
from collections.abc import Iterable, Sequence

import msgspec


class Part(msgspec.Struct, frozen=True):
    """A file of the bundle: what it is, and its content, or why there is none."""

    name: str
    what: str
    data: bytes = b""
    missing: str = ""


def contents(parts: Iterable[Part], head: Sequence[str]) -> str:
    """What is in the bundle, and why the rest is not, as text."""
    lines = [*head, ""]
    for part in parts:
        lines.append(f"{part.name}: {part.what}")
        lines += [f"    COULD NOT BE HAD: {part.missing}"] if part.missing else []
    return "\n".join(lines) + "\n"


def packed(folder: str, parts: Iterable[Part], now: float) -> bytes:
    """The tar, compressed. A part that could not be had has a file that says why."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as tar:
        for part in parts:
            name, data = f"{folder}/{part.name}", part.data
            if part.missing:
                name, data = f"{name}.missing", f"{part.missing}\n".encode()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(data), int(now), 0o600
            tar.addfile(entry, io.BytesIO(data))
    return gzip.compress(held.getvalue(), 6, mtime=int(now))
