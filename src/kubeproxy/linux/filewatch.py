"""Notifies of changed files: the manifests, and the file that `--config` names. An edge.

Files are never watched, only the directories that lead to them: a file that is replaced, a
directory that is deleted and made again, a ConfigMap whose `..data` link is swapped all are events
of a directory. Which directories these are is found again after every event; a symbolic link
adds its own directory and those to which it leads. Writes count when the file is closed, so that
a file is usually read as a whole.

At rest nothing runs. When the kernel has no inotify watches left, the files are looked at every
two seconds instead.
"""

import asyncio
import os
import stat
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from enum import Enum

import msgspec

from kubeproxy.base import klog
from kubeproxy.linux import inotify
from kubeproxy.linux.inotify import DirectoryWatch, Inotify, InotifyUnavailableError

SETTLE_SECONDS = 0.05
SETTLE_AT_MOST = 10
"""How many times in a row a change waits for the next one before it is reported."""
POLL_SECONDS = 2.0
_MAX_LINKS = 40

_ITSELF = inotify.DELETE_SELF | inotify.MOVE_SELF
_ENTRIES = (
    inotify.CREATE
    | inotify.DELETE
    | inotify.MOVED_FROM
    | inotify.MOVED_TO
    | inotify.CLOSE_WRITE
    | _ITSELF
)
_RENAMED = inotify.MOVED_FROM | inotify.MOVE_SELF

Identity = tuple[int, ...]
Paths = Sequence[str]


class ContentChange(Enum):
    """What happened to a file."""

    CHANGED = "its content is another one"
    RENAMED_AWAY = "it was renamed"


async def changes(paths: Paths) -> AsyncGenerator[None, None]:
    """Yields at once, and again after each burst of changes below the paths.

    A path may be a file, a directory (with all below it, but for hidden names) or missing. What
    is read after a yield is either what the next yield would find too, or that yield comes.
    """
    async with aclosing(_notices(paths)) as notices:
        async for _ in notices:
            yield


async def wait_content_changed(path: str, content: bytes | None = None) -> ContentChange:
    """Wait until the file holds something else than the content (default: what it holds now).

    A file that is touched, that is deleted, or that comes back as it was has not changed.
    """
    before = _content(path) if content is None else content
    async with aclosing(_notices([path])) as notices:
        async for mask in notices:
            now = _content(path)
            if now is None and before is not None and mask & _RENAMED:
                return ContentChange.RENAMED_AWAY
            if now not in (None, before):
                return ContentChange.CHANGED
    raise AssertionError("notices never end")


def _content(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:  # noqa: PTH123  # paths are texts here
            return file.read()
    except OSError:
        return None


async def _notices(paths: Paths) -> AsyncGenerator[int, None]:
    """Masks of what happened, or'ed over a burst; the first, 0, once the watches are in place."""
    happened, polling = 0, False
    while True:
        plan = _survey(paths)
        files = WatchPlan()
        watches: Inotify | None = None
        try:
            watches = Inotify(plan.watches)
        except InotifyUnavailableError as error:
            if not polling:
                klog.warning(
                    "inotify is not available, polling files for changes",
                    err=error,
                    period=f"{POLL_SECONDS:g}s",
                )
            files = _survey(paths, with_files=True)
        polling = watches is None
        try:
            while plan == _survey(paths):  # else other directories have to be watched
                yield happened
                if watches is not None:
                    happened = await _wait_burst(watches)
                else:
                    happened, files = inotify.Q_OVERFLOW, await _wait_other(files, paths)
        finally:
            if watches is not None:
                watches.close()


async def _wait_burst(watches: Inotify) -> int:
    """Wait for a change that matters and for the end of its burst; what happened."""
    happened = 0
    while not happened:
        await watches.wait_readable()
        happened = watches.read()
    for _ in range(SETTLE_AT_MOST):
        await asyncio.sleep(SETTLE_SECONDS)
        more = watches.read()
        if not more:
            break
        happened |= more
    return happened


async def _wait_other(before: "WatchPlan", paths: Paths) -> "WatchPlan":
    """Wait until the files are not as they were before; how they are now."""
    while True:
        await asyncio.sleep(POLL_SECONDS)
        now = _survey(paths, with_files=True)
        if now != before:
            return now


# --- what to watch ----------------------------------------------------------------------------


class WatchPlan(msgspec.Struct):
    """The directories to watch, and what distinguishes a file from a later one of that name."""

    watches: dict[str, DirectoryWatch] = {}
    identities: dict[str, Identity] = {}

    def want(self, directory: str, watch: DirectoryWatch) -> None:
        """Watch a directory for this too."""
        known = self.watches.get(directory)
        self.watches[directory] = watch.union(known) if known else watch
        if not known:
            self.identities[directory] = _identity(directory)[:2]


def _identity(path: str) -> Identity:
    try:
        status = os.stat(path)  # noqa: PTH116  # paths are texts here
    except OSError:
        return ()
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _survey(paths: Paths, *, with_files: bool = False) -> WatchPlan:
    """Which directories to watch so that no change below the paths goes unseen.

    With files, their sizes and times count too: comparing two such surveys is how polling works.
    """
    found = WatchPlan()
    reached = [_resolve(path, found) for path in paths]
    waiting = [path for path in reached if path is not None]
    seen: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        try:
            entries = list(os.scandir(path))
        except NotADirectoryError:
            if with_files:
                found.identities[path] = _identity(path)
            continue
        except OSError:
            continue
        found.want(path, DirectoryWatch(_ENTRIES, any_name=True))
        waiting.extend(_worth_following(entries, found, with_files=with_files))
    return found


def _worth_following(
    entries: list[os.DirEntry[str]], found: WatchPlan, *, with_files: bool
) -> list[str]:
    """The entries of a directory to look into; ordinary files only if they count."""
    visible = [entry for entry in entries if not entry.name.startswith(".")]
    links = [_resolve(entry.path, found) for entry in visible if entry.is_symlink()]
    others = [
        entry.path
        for entry in visible
        if not entry.is_symlink() and (with_files or entry.is_dir(follow_symlinks=False))
    ]
    return others + [path for path in links if path is not None]


def _resolve(path: str, found: WatchPlan) -> str | None:
    """Where a path leads, or None if nowhere; what could change that is watched from now on."""
    current = "/"
    parts = deque(os.path.abspath(path).split("/"))  # noqa: PTH100  # paths are texts here
    links = 0
    while parts:
        name = parts.popleft()
        if name in ("", ".", ".."):
            current = os.path.dirname(current) if name == ".." else current  # noqa: PTH120
            continue
        child = os.path.join(current, name)  # noqa: PTH118
        try:
            mode = os.lstat(child).st_mode
            target = os.readlink(child) if stat.S_ISLNK(mode) else None  # noqa: PTH115
        except OSError:
            found.want(current, DirectoryWatch(_ENTRIES, frozenset([name])))
            return None
        if stat.S_ISDIR(mode):
            found.want(child, DirectoryWatch(_ITSELF))
            current = child
            continue
        found.want(current, DirectoryWatch(_ENTRIES, frozenset([name])))
        if target is None:
            return child if not parts else None
        links += 1
        if links > _MAX_LINKS:
            return None
        current = "/" if target.startswith("/") else current
        parts.extendleft(reversed(target.split("/")))
    return current
