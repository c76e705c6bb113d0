"""The commit that this program was built from: of the package, or of the work tree it runs in.

`setup.py` writes it into a package. In a work tree git is asked: what runs there is what its
files say now, and `-dirty` says that they are no longer those of the commit.
"""

import subprocess
from functools import cache
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).with_name("commit.txt")
_SECONDS: Final = 5.0


@cache
def commit() -> str:
    """The first digits of the commit; "" if that is not known."""
    try:
        return FILE.read_text().strip()
    except OSError:
        return of_work_tree(Path(__file__).parents[3])


def of_work_tree(root: Path) -> str:
    """The commit that is checked out in a folder; "" where the folder is no work tree."""
    if not (root / ".git").exists():
        return ""
    command = (
        "git",
        "-C",
        str(root),
        "describe",
        "--always",
        "--dirty",
        "--exclude=*",
        "--abbrev=12",
    )
    try:
        asked = subprocess.run(  # noqa: S603  # fixed arguments
            command, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return asked.stdout.strip()
