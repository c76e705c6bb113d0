"""Whose thread it is that the kernel names."""

import os
import threading
from pathlib import Path

import pytest

from kubeproxy.base.writer import Writer
from kubeproxy.linux.processes import with_process


def test_a_thread_of_ours() -> None:
    name = Path("/proc/self/comm").read_text().strip()
    found: list[Writer] = []
    thread = threading.Thread(
        target=lambda: found.append(with_process(Writer(name, threading.get_native_id())))
    )
    thread.start()
    thread.join()
    assert found == [Writer(name, os.getpid())]


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(None, id="it-has-ended"),
        pytest.param("Name:\tother\nUmask:\t0022\nTgid:\t5\n", id="of-another-namespace"),
        pytest.param("", id="nothing-to-read"),
    ],
)
def test_nobody_who_is_known(status: str | None, tmp_path: Path) -> None:
    if status is not None:
        (tmp_path / "7").mkdir()
        (tmp_path / "7/status").write_text(status)
    assert with_process(Writer("nft", 7), tmp_path) == Writer("nft", 7)
