import subprocess
from pathlib import Path

import pytest

from kubeproxy.base import commit
from kubeproxy.base.version import KUBERNETES_VERSION, VERSION, described


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    return subprocess.run(
        [*command, *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_the_commit_of_a_work_tree_and_whether_its_files_are_still_those(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "file").write_text("1")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    git(tmp_path, "tag", "-a", "v1", "-m", "tags are not what is asked for")
    first = git(tmp_path, "rev-parse", "--short=12", "HEAD")
    assert first == commit.of_work_tree(tmp_path)
    (tmp_path / "file").write_text("2")
    assert f"{first}-dirty" == commit.of_work_tree(tmp_path)


def test_where_there_is_no_work_tree_the_commit_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert commit.of_work_tree(tmp_path) == ""
    (tmp_path / ".git").mkdir()
    assert commit.of_work_tree(tmp_path) == ""
    monkeypatch.setenv("PATH", "")
    assert commit.of_work_tree(tmp_path) == ""


def test_a_package_says_what_was_written_into_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "commit.txt").write_text("0123456789ab\n")
    monkeypatch.setattr(commit, "FILE", tmp_path / "commit.txt")
    assert commit.commit.__wrapped__() == "0123456789ab"


def test_versions_in_words() -> None:
    assert f"kubeproxy {VERSION} (commit 1a), Kubernetes {KUBERNETES_VERSION}" == described("1a")
    assert described("", "2.0", "v2.1") == "kubeproxy 2.0 (commit unknown), Kubernetes v2.1"
