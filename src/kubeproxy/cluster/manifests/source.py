"""The cluster's state from files instead of an API server: the same events, for the same rules.

A file that is broken, or empty while it is written, keeps its last valid content; when a directory
disappears, its objects stay. Objects are deleted only with a file that is deleted from an existing
directory.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from kubeproxy.base import klog
from kubeproxy.base.errors import OperatorError
from kubeproxy.cluster.events import Event
from kubeproxy.cluster.manifests.documents import BrokenManifest, Document
from kubeproxy.cluster.manifests.files import RECENT_NS, Signature, parse_file, read, scan
from kubeproxy.cluster.manifests.objects import (
    Duplicate,
    ManifestObject,
    decode_documents,
    events_between,
    first_events,
    merge,
)
from kubeproxy.cluster.manifests.skipped import Skipped, other_kinds, skipped
from kubeproxy.cluster.objects.meta import ObjectId
from kubeproxy.cluster.objects.types import KubeObject
from kubeproxy.cluster.source import Gap
from kubeproxy.linux import filewatch


class ManifestContents(msgspec.Struct, frozen=True):
    """The contents of all manifests at one moment."""

    documents: list[Document]
    """Every document of every kind, in order of the files' names."""
    objects: dict[ObjectId, KubeObject]
    """The objects that the API server would send; `first_events` makes events of them."""
    problems: list[BrokenManifest]
    duplicates: list[Duplicate]


def load(paths: Sequence[str], node_name: str | None = None) -> ManifestContents:
    """Read the manifests once. An invalid file is a problem; an unreadable path is an error."""
    found = scan(paths)
    _refuse(paths, found.unreachable)
    documents: list[Document] = []
    problems: list[BrokenManifest] = []
    for path in found.files:
        try:
            documents += parse_file(path, read(path) or b"")
        except BrokenManifest as error:
            problems.append(error)
    decoded, undecodable = decode_documents(documents)
    objects, duplicates = merge(decoded, node_name)
    return ManifestContents(documents, objects, [*problems, *undecodable], duplicates)


def _refuse(paths: Sequence[str], unreachable: Mapping[str, str]) -> None:
    """Raise an error when a path cannot be read, or there is none."""
    for path, why in unreachable.items():
        raise OperatorError(f"the manifests in {path} cannot be read: {why}")
    if not paths:
        raise OperatorError("no manifests are named: give a directory or a file")


class ManifestFile(msgspec.Struct, frozen=True):
    """What is known of one file."""

    signature: Signature | None
    """None: read the file again next time, even if its signature is the same."""
    digest: bytes
    objects: list[ManifestObject]
    """The last valid ones."""
    problems: list[BrokenManifest]
    skipped: tuple[Skipped, ...] = ()


class Library(msgspec.Struct, frozen=True):
    """What is known of all files."""

    files: dict[str, ManifestFile] = {}
    unreachable: dict[str, str] = {}


def refresh(library: Library, paths: Sequence[str], now_ns: int) -> Library:
    """The library after another scan of the files; what did not change is the same value."""
    found = scan(paths)
    files = {
        path: known for path, known in library.files.items() if _is_below(path, found.unreachable)
    }
    for path, signature in found.files.items():
        file = _refreshed(path, library.files.get(path), signature, now_ns)
        if file is not None:
            files[path] = file
    return Library(dict(sorted(files.items())), found.unreachable)


def _is_below(path: str, roots: Iterable[str]) -> bool:
    return any(path == root or path.startswith(f"{root}/") for root in roots)


def _refreshed(
    path: str, known: ManifestFile | None, signature: Signature, now_ns: int
) -> ManifestFile | None:
    """A file as it is now; what is invalid keeps the objects from before."""
    if known is not None and known.signature == signature:
        return known
    settled = max(signature.modified_ns, signature.changed_ns) < now_ns - RECENT_NS
    trusted = signature if settled else None
    before = known.objects if known is not None else []
    left_out: tuple[Skipped, ...] = ()
    digest = b""  # an unreadable file has no content to compare the next one with
    try:
        data = read(path)
        if data is None:
            return known  # deleted just now, which causes another refresh
        digest = sha256(data).digest()
        if known is not None and known.digest == digest:
            return known if known.signature == trusted else replace(known, signature=trusted)
        if before and not data.strip():
            reason = "the file is empty; delete it if that is meant"
            objects, problems = before, [BrokenManifest(path, 1, 1, reason)]
        else:
            documents = parse_file(path, data)
            objects, problems = decode_documents(documents, before)
            left_out = skipped(documents)
    except BrokenManifest as error:
        if known is not None and known.digest == digest == b"":
            return known
        return ManifestFile(trusted if digest else None, digest, before, [error])
    return ManifestFile(trusted, digest, objects, problems, left_out)


class Manifests:
    """The source: delivers the objects in the files, and every change to them.

    Paths are files, or directories with all below them. With a node name, other Nodes are left
    out.
    """

    write = None
    """There is no cluster to write to."""

    def __init__(self, paths: Sequence[str], node_name: str | None = None) -> None:
        self._paths = tuple(paths)
        self._node_name = node_name
        self._library = Library()
        self._delivered: dict[ObjectId, KubeObject] | None = None
        self._duplicates: list[Duplicate] = []

    async def run(self, deliver: Callable[[Event], None]) -> None:
        """Deliver everything, then every difference, until cancelled.

        Raises `OperatorError` if a path cannot be read at the start. Files are read in a thread,
        because large ones take seconds to parse.
        """
        self._library, self._delivered, self._duplicates = Library(), None, []
        async with aclosing(filewatch.changes(self._paths)) as changes:
            async for _ in changes:
                library = await asyncio.to_thread(
                    refresh, self._library, self._paths, time.time_ns()
                )
                for event in self._events(library):
                    deliver(event)

    def gaps(self) -> list[Gap]:
        """Paths that cannot be read, and files that are invalid: their last state is used."""
        library = self._library
        return [
            *(Gap(path, why) for path, why in library.unreachable.items()),
            *(
                Gap(f"{path}:{problem.line}:{problem.column}", problem.reason)
                for path, file in library.files.items()
                for problem in file.problems
            ),
        ]

    def silence(self) -> None:
        """Files say nothing for as long as nobody changes them."""

    def _events(self, library: Library) -> list[Event]:
        """Log what changed in the library, and turn it into events."""
        if self._delivered is None:
            _refuse(self._paths, library.unreachable)
        _report(self._library, library)
        placed = (each for file in library.files.values() for each in file.objects)
        objects, duplicates = merge(placed, self._node_name)
        for duplicate in duplicates:
            if duplicate not in self._duplicates:
                klog.warning(
                    "Object is in two manifests, the last one is used",
                    kind=duplicate.kind,
                    object=duplicate.key,
                    used=duplicate.used,
                    ignored=duplicate.ignored,
                )
        before, self._delivered = self._delivered, objects
        self._library, self._duplicates = library, duplicates
        return first_events(objects) if before is None else events_between(before, objects)


def _report(before: Library, after: Library) -> None:
    """Log what is invalid, once for each content, and what is valid again."""
    for path, why in after.unreachable.items():
        if path not in before.unreachable:
            klog.error("Cannot read manifests, their last state stays in use", err=why, path=path)
    for path in before.unreachable:
        if path not in after.unreachable:
            klog.info("Manifests can be read again", path=path)
    for path, file in after.files.items():
        known = before.files.get(path)
        _report_skipped(path, file.skipped, known.skipped if known is not None else ())
        if known is not None and known.problems == file.problems:
            continue
        for problem in file.problems:
            klog.error(
                "Manifest is invalid, its last valid content stays in use",
                err=problem.reason,
                file=path,
                line=problem.line,
                column=problem.column,
            )
        if known is not None and not file.problems:
            klog.info("Manifest is valid again", file=path)


def _report_skipped(path: str, now: Sequence[Skipped], before: Sequence[Skipped]) -> None:
    """Log what is skipped of a file, where that is new."""
    for each in now:
        if each.why and each not in before:
            klog.warning(
                "Object of a manifest is skipped",
                kind=each.kind,
                object=each.name,
                place=each.place,
                reason=each.why,
            )
    others = other_kinds(now)
    if others and others != other_kinds(before):
        klog.info("Objects of other kinds are skipped", file=path, kinds=others)
