"""A process that has hardly any descriptors left."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def room_for(descriptors: int) -> Iterator[None]:
    """Let the process open that many more files."""
    lowest = os.dup(0)
    os.close(lowest)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + descriptors, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
