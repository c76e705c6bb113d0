"""What the host gives the test kernel to do, and where the two of them meet."""

from pathlib import Path

import msgspec

FILE = "job.json"
"""In the directory that is named to the kernel."""
OUTPUT, ERRORS, RESULT = "/dev/ttyS0", "/dev/ttyS1", "/dev/ttyS2"
"""The serial lines: what the command prints, what it complains of, and its exit code."""


class Job(msgspec.Struct, frozen=True):
    """A command, where to run it, and with which environment."""

    command: tuple[str, ...]
    directory: str
    environment: dict[str, str]

    def write(self, place: Path) -> None:
        """Leave it where the kernel will look."""
        (place / FILE).write_bytes(msgspec.json.encode(self))


def read_job(place: Path) -> Job:
    """The job that lies there."""
    return msgspec.json.decode((place / FILE).read_bytes(), type=Job)
