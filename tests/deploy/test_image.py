"""The image: what its build copies is there for it."""

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "deploy/Dockerfile").read_text()
COPIED = [
    source
    for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)
    for source in line.split()[:-1]
]


def reaches_the_build(path: str) -> bool:
    """Whether Docker sends a file: the last line of .dockerignore that matches it decides."""
    reaches = True
    for line in (ROOT / ".dockerignore").read_text().split():
        pattern = line.removeprefix("!")
        if fnmatch(path, pattern) or path.startswith(f"{pattern}/"):
            reaches = line.startswith("!")
    return reaches


@pytest.mark.parametrize("source", COPIED)
def test_what_is_copied_exists_and_is_not_ignored(source: str) -> None:
    assert (ROOT / source).exists()
    assert reaches_the_build(source)


def test_nothing_else_is_sent() -> None:
    others = {each.name for each in ROOT.iterdir()} - {*COPIED, "requirements"}
    assert not {each for each in others if reaches_the_build(each)}
