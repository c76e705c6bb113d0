import os
from pathlib import Path

import pytest

from kubeproxy.linux.cores import count_cores, online_cores


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("0\n", 1, id="one"),
        pytest.param("0-3\n", 4, id="a-range"),
        pytest.param("0-3,5,8-15\n", 13, id="ranges-and-single-ones"),
    ],
)
def test_a_list_of_cores_is_counted(text: str, expected: int) -> None:
    assert expected == count_cores(text)


@pytest.mark.parametrize("text", [None, "", "many"])
def test_what_cannot_be_read_counts_our_own_cores(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "online"
    if text is not None:
        file.write_text(text)
    assert online_cores(file) == len(os.sched_getaffinity(0))


def test_a_machine_has_at_least_the_cores_that_we_may_use() -> None:
    assert online_cores() >= len(os.sched_getaffinity(0))
