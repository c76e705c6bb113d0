"""Real files; each test makes a change and waits for the notice of it."""

import asyncio
import errno
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from kubeproxy.linux import filewatch
from kubeproxy.linux.filewatch import ContentChange
from kubeproxy.linux.inotify import DirectoryWatch, Inotify, InotifyUnavailableError

SILENCE = 0.06
"""Longer than a burst lasts in these tests: what is not reported by then is not reported."""


@pytest.fixture(autouse=True)
def _short_bursts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filewatch, "SETTLE_SECONDS", 0.01)


class Notices:
    """The notices about some paths, asked for one at a time."""

    def __init__(self, changes: AsyncIterator[None]) -> None:
        self._changes = changes
        self._next: asyncio.Task[None] | None = None

    async def come(self, within: float = 5.0) -> bool:
        """Whether a notice comes in time."""
        if self._next is None:
            self._next = asyncio.ensure_future(anext(self._changes))
        done, _ = await asyncio.wait([self._next], timeout=within)
        if done:
            self._next.result()
            self._next = None
        return bool(done)

    async def close(self) -> None:
        if self._next is not None:
            self._next.cancel()
            await asyncio.gather(self._next, return_exceptions=True)


async def notices_after(change: Callable[[], object], *paths: Path) -> tuple[bool, bool]:
    """Whether a notice comes after a change, and whether another one follows."""
    async with aclosing(filewatch.changes([str(path) for path in paths])) as changes:
        notices = Notices(changes)
        assert await notices.come()
        change()
        first = await notices.come(5.0)
        second = await notices.come(SILENCE)
        await notices.close()
        return first, second


async def is_silent_after(change: Callable[[], object], *paths: Path) -> bool:
    async with aclosing(filewatch.changes([str(path) for path in paths])) as changes:
        notices = Notices(changes)
        assert await notices.come()
        change()
        came = await notices.come(SILENCE)
        await notices.close()
        return not came


def configmap(directory: Path, version: str, content: str) -> None:
    """Write a ConfigMap volume as the kubelet does: a new folder, then a swap of the link."""
    data = directory / f"..{version}"
    data.mkdir(parents=True)
    (data / "a.yaml").write_text(content)
    temporary = directory / "..data_tmp"
    temporary.symlink_to(data.name)
    old = directory / "..data"
    before = directory / str(old.readlink()) if old.is_symlink() else None
    temporary.rename(old)
    if not (directory / "a.yaml").is_symlink():
        (directory / "a.yaml").symlink_to("..data/a.yaml")
    if before is not None:
        (before / "a.yaml").unlink()
        before.rmdir()


def replace(path: Path, content: str) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(content)
    temporary.rename(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "above" / "folder"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.yaml").write_text("a")
    (folder / "sub" / "b.yaml").write_text("b")
    return folder


CHANGES: dict[str, Callable[[Path], object]] = {
    "a-write-in-place": lambda d: (d / "a.yaml").write_text("new"),
    "a-new-file": lambda d: (d / "c.yaml").write_text("new"),
    "an-atomic-replacement": lambda d: replace(d / "a.yaml", "new"),
    "a-deleted-file": lambda d: (d / "a.yaml").unlink(),
    "a-renamed-file": lambda d: (d / "a.yaml").rename(d / "z.yaml"),
    "a-file-below": lambda d: (d / "sub" / "b.yaml").write_text("new"),
    "a-new-folder": lambda d: (d / "new").mkdir(),
    "a-folder-that-goes": lambda d: shutil.rmtree(d / "sub"),
    "the-whole-folder-renamed": lambda d: d.rename(d.parent / "other"),
    "the-folder-above-renamed": lambda d: d.parent.rename(d.parent.parent / "other"),
}


@pytest.mark.parametrize("change", [pytest.param(c, id=name) for name, c in CHANGES.items()])
async def test_one_notice_for_each_change(folder: Path, change: Callable[[Path], object]) -> None:
    assert await notices_after(lambda: change(folder), folder) == (True, False)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda d: os.utime(d / "a.yaml"), id="touch"),
        pytest.param(lambda d: (d / "a.yaml").chmod(0o600), id="chmod"),
        pytest.param(lambda d: (d / "a.yaml").read_text(), id="reading"),
        pytest.param(lambda d: (d.parent / "sibling").write_text("x"), id="a-file-beside-it"),
    ],
)
async def test_no_notice_of_what_changes_nothing(
    folder: Path, change: Callable[[Path], object]
) -> None:
    assert await is_silent_after(lambda: change(folder), folder)


async def test_a_burst_is_one_notice(folder: Path) -> None:
    def burst() -> None:
        for number in range(100):
            (folder / f"{number}.yaml").write_text("x")

    assert await notices_after(burst, folder) == (True, False)


async def test_a_writer_that_never_stops_is_reported_nevertheless(folder: Path) -> None:
    async def write_for_ever() -> None:
        while True:
            (folder / "a.yaml").write_text("x")
            await asyncio.sleep(0.001)

    async with aclosing(filewatch.changes([str(folder)])) as changes:
        notices = Notices(changes)
        assert await notices.come()
        writer = asyncio.create_task(write_for_ever())
        assert await notices.come()
        writer.cancel()
        await asyncio.gather(writer, return_exceptions=True)


async def test_changes_go_on_in_what_is_new(folder: Path) -> None:
    async with aclosing(filewatch.changes([str(folder)])) as changes:
        notices = Notices(changes)
        assert await notices.come()
        (folder / "new" / "deep").mkdir(parents=True)
        assert await notices.come()
        (folder / "new" / "deep" / "c.yaml").write_text("c")
        assert await notices.come()


async def test_a_folder_that_comes_back_is_watched_again(folder: Path) -> None:
    async with aclosing(filewatch.changes([str(folder)])) as changes:
        notices = Notices(changes)
        assert await notices.come()
        folder.parent.rename(folder.parent.parent / "away")
        assert await notices.come()
        for path in (folder.parent, folder, folder / "sub"):
            path.mkdir()
            assert await notices.come()


async def test_what_a_link_leads_to_is_watched(tmp_path: Path, folder: Path) -> None:
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "a.yaml").symlink_to(folder / "a.yaml")
    (linked / "sub").symlink_to("../above/folder/sub")
    write_file = notices_after(lambda: (folder / "a.yaml").write_text("new"), linked)
    assert await write_file == (True, False)
    write_below = notices_after(lambda: (folder / "sub" / "c.yaml").write_text("new"), linked)
    assert await write_below == (True, False)


async def test_a_swapped_configmap_is_one_notice_for_its_folder_and_for_its_file(
    tmp_path: Path,
) -> None:
    volume = tmp_path / "volume"
    configmap(volume, "1", "one")
    assert await notices_after(lambda: configmap(volume, "2", "two"), volume) == (True, False)
    swapped = notices_after(lambda: configmap(volume, "3", "three"), volume / "a.yaml")
    assert await swapped == (True, False)


async def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").symlink_to("a.yaml")
    (tmp_path / "self").symlink_to(".")
    assert await notices_after(lambda: (tmp_path / "b").write_text("x"), tmp_path) == (True, False)


async def test_a_file_alone_ignores_its_neighbours(folder: Path) -> None:
    path = folder / "a.yaml"
    assert await is_silent_after(lambda: (folder / "other").write_text("x"), path)
    assert await notices_after(lambda: path.write_text("x"), path) == (True, False)


# --- the content of one file ------------------------------------------------------------------


async def content_change(
    path: Path, change: Callable[[], object], within: float = SILENCE
) -> ContentChange | None:
    """What is reported of a file after a change, or None when nothing is in time."""
    waiting = asyncio.create_task(filewatch.wait_content_changed(str(path)))
    await asyncio.sleep(0)  # let it read the file as it is
    change()
    done, _ = await asyncio.wait([waiting], timeout=within)
    if done:
        return waiting.result()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    return None


def recreate(path: Path, content: str) -> None:
    path.unlink()
    path.write_text(content)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(lambda p: p.write_text("b"), ContentChange.CHANGED, id="a-write-in-place"),
        pytest.param(lambda p: replace(p, "b"), ContentChange.CHANGED, id="a-replacement"),
        pytest.param(lambda p: recreate(p, "b"), ContentChange.CHANGED, id="a-re-creation"),
        pytest.param(
            lambda p: p.rename(p.with_name("x")), ContentChange.RENAMED_AWAY, id="renamed-away"
        ),
        pytest.param(
            lambda p: p.parent.rename(p.parent.with_name("x")),
            ContentChange.RENAMED_AWAY,
            id="its-folder-renamed-away",
        ),
        pytest.param(lambda p: p.write_text("a"), None, id="the-same-written-again"),
        pytest.param(lambda p: replace(p, "a"), None, id="replaced-by-the-same"),
        pytest.param(lambda p: recreate(p, "a"), None, id="deleted-and-made-again-as-it-was"),
        pytest.param(lambda p: p.unlink(), None, id="deleted"),
        pytest.param(os.utime, None, id="touched"),
        pytest.param(lambda p: p.chmod(0o600), None, id="chmod"),
        pytest.param(lambda p: (p.parent / "b").write_text("b"), None, id="a-neighbour"),
    ],
)
async def test_what_is_reported_of_the_content_of_a_file(
    folder: Path, change: Callable[[Path], object], expected: ContentChange | None
) -> None:
    path = folder / "a.yaml"
    within = SILENCE if expected is None else 5.0
    assert expected == await content_change(path, lambda: change(path), within)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param("two", ContentChange.CHANGED, id="other-content"),
        pytest.param("one", None, id="the-same-content"),
    ],
)
async def test_a_swapped_configmap_counts_by_its_content(
    tmp_path: Path, content: str, expected: ContentChange | None
) -> None:
    configmap(tmp_path / "volume", "1", "one")
    path = tmp_path / "volume" / "a.yaml"
    within = SILENCE if expected is None else 5.0
    swap = lambda: configmap(tmp_path / "volume", "2", content)  # noqa: E731  # one of its kind
    assert expected == await content_change(path, swap, within)


async def test_a_file_that_comes_back_with_other_content_has_changed(folder: Path) -> None:
    path = folder / "a.yaml"
    waiting = asyncio.create_task(filewatch.wait_content_changed(str(path)))
    await asyncio.sleep(0)
    path.unlink()
    await asyncio.sleep(SILENCE)
    path.write_text("b")
    assert await asyncio.wait_for(waiting, 5) is ContentChange.CHANGED


async def test_the_content_that_was_read_earlier_can_be_given(folder: Path) -> None:
    changed = filewatch.wait_content_changed(str(folder / "a.yaml"), b"older")
    assert await asyncio.wait_for(changed, 5) is ContentChange.CHANGED


# --- without inotify --------------------------------------------------------------------------


@pytest.fixture
def without_inotify(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(watches: dict[str, DirectoryWatch]) -> Inotify:
        raise InotifyUnavailableError(errno.EMFILE, f"no room for {len(watches)} watches")

    monkeypatch.setattr(filewatch, "Inotify", refuse)
    monkeypatch.setattr(filewatch, "POLL_SECONDS", 0.02)


@pytest.mark.usefixtures("without_inotify")
@pytest.mark.parametrize("change", [pytest.param(c, id=name) for name, c in CHANGES.items()])
async def test_polling_sees_the_same_changes(
    folder: Path, change: Callable[[Path], object], capsys: pytest.CaptureFixture[str]
) -> None:
    assert await notices_after(lambda: change(folder), folder) == (True, False)
    assert capsys.readouterr().err.count("inotify is not available, polling") == 1


@pytest.mark.usefixtures("without_inotify")
async def test_polling_sees_a_changed_file(folder: Path) -> None:
    path = folder / "a.yaml"
    assert await content_change(path, lambda: path.write_text("b"), 5.0) is ContentChange.CHANGED
    assert await content_change(path, lambda: os.utime(path)) is None
