import ctypes
import errno
import os
from pathlib import Path

import pytest

from kubeproxy.linux import inotify
from kubeproxy.linux.inotify import DirectoryWatch, Inotify, InotifyUnavailableError

ITSELF = DirectoryWatch(inotify.DELETE_SELF)
ENTRIES = DirectoryWatch(inotify.CREATE, any_name=True)
ONE_NAME = DirectoryWatch(inotify.CREATE, frozenset(["a"]))


class RefusingKernel:
    """Refuses to add watches, or with `init` even the instance, with an error number."""

    def __init__(self, error: int, *, init: bool = False) -> None:
        self._error = error
        self._init = init

    def inotify_init1(self, flags: int) -> int:
        ctypes.set_errno(self._error)
        return -1 if self._init else os.open(os.devnull, os.O_RDONLY | flags)

    def inotify_add_watch(self, _fd: int, _path: bytes, _mask: int) -> int:
        ctypes.set_errno(self._error)
        return -1


@pytest.mark.parametrize(
    ("kernel", "watch"),
    [
        pytest.param(RefusingKernel(errno.EMFILE, init=True), ITSELF, id="no-more-instances"),
        pytest.param(RefusingKernel(errno.ENOSPC), ITSELF, id="no-more-watches"),
        pytest.param(RefusingKernel(errno.EACCES), ENTRIES, id="a-directory-we-must-read"),
    ],
)
def test_refusals_are_raised_with_their_number(
    monkeypatch: pytest.MonkeyPatch, kernel: RefusingKernel, watch: DirectoryWatch
) -> None:
    monkeypatch.setattr(inotify, "_libc", kernel)
    with pytest.raises(InotifyUnavailableError) as caught:
        Inotify({"/x": watch})
    assert kernel._error == caught.value.errno


@pytest.mark.parametrize(
    ("error", "watch"),
    [
        pytest.param(errno.ENOENT, ENTRIES, id="gone-since-it-was-found"),
        pytest.param(errno.ENOTDIR, ENTRIES, id="no-directory-any-more"),
        pytest.param(errno.EACCES, ITSELF, id="a-directory-we-only-pass"),
    ],
)
def test_refusals_that_do_not_matter(
    monkeypatch: pytest.MonkeyPatch, error: int, watch: DirectoryWatch
) -> None:
    monkeypatch.setattr(inotify, "_libc", RefusingKernel(error))
    Inotify({"/x": watch}).close()


@pytest.mark.parametrize(
    ("watch", "expected"),
    [
        pytest.param(ENTRIES, inotify.CREATE, id="any-name"),
        pytest.param(ONE_NAME, inotify.CREATE, id="that-name"),
        pytest.param(DirectoryWatch(inotify.CREATE, frozenset(["b"])), 0, id="another-name"),
        pytest.param(DirectoryWatch(inotify.DELETE, any_name=True), 0, id="another-event"),
    ],
)
def test_events_that_matter_are_read(tmp_path: Path, watch: DirectoryWatch, expected: int) -> None:
    watching = Inotify({str(tmp_path): watch})
    (tmp_path / "a").touch()
    assert expected == watching.read()
    watching.close()


def test_two_names_of_one_directory_see_what_both_want(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    other = DirectoryWatch(inotify.DELETE, frozenset(["b"]))
    watching = Inotify({str(tmp_path / "real"): ONE_NAME, str(tmp_path / "link"): other})
    (tmp_path / "real" / "a").touch()
    assert watching.read() == inotify.CREATE
    (tmp_path / "real" / "b").touch()
    (tmp_path / "real" / "b").unlink()
    assert watching.read() == inotify.CREATE | inotify.DELETE
    watching.close()


def test_too_many_events_are_an_event(tmp_path: Path) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    watching = Inotify({str(tmp_path): DirectoryWatch(inotify.CREATE | inotify.DELETE)})
    for _ in range(limit // 2 + 1):
        (tmp_path / "a").touch()
        (tmp_path / "a").unlink()
    assert watching.read() == inotify.Q_OVERFLOW
    watching.close()
