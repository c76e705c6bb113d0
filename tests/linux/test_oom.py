import re
from pathlib import Path

import pytest

from kubeproxy.base.errors import KernelError
from kubeproxy.linux.oom import ensure_oom_score_adj


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "oom_score_adj"
    file.write_text("0\n")
    return file


def test_another_score_is_written(file: Path) -> None:
    ensure_oom_score_adj(-999, file)
    assert file.read_text() == "-999"


def test_the_same_score_is_left_alone(file: Path) -> None:
    ensure_oom_score_adj(0, file)
    assert file.read_text() == "0\n"


def test_a_refusal_names_the_file_and_the_score(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    with pytest.raises(KernelError, match=re.escape(f"cannot set {gone} to -999")):
        ensure_oom_score_adj(-999, gone)
