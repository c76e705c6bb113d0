"""One run for several kernels: what it leaves, and what it says when it cannot begin."""

from pathlib import Path

import pytest

from kernels.boot import Machine
from kernels.debian import NotAvailable
from kernels.job import STEPS, Job
from kernels.session import session


def test_a_cache_that_cannot_be_made_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    job = Job(tuple(STEPS.values()))
    with (
        pytest.raises(NotAvailable, match=r"file.*: Not a directory\. Name .* --cache"),
        session(tmp_path / "file" / "cache", job, Machine()),
    ):
        pass
