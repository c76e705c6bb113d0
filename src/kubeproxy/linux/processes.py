"""Processes of this PID namespace, by the numbers of their threads."""

import re
from pathlib import Path

from kubeproxy.base.writer import Writer

_PROC = Path("/proc")
_STATUS = re.compile(r"Name:\t(?P<name>.*)\n(?:.*\n)*?Tgid:\t(?P<process>\d+)\n")


def with_process(writer: Writer, proc: Path = _PROC) -> Writer:
    """The writer with the number of its process, where the kernel named one of its threads.

    Unchanged where it has ended, or lives in another PID namespace: then the number belongs to
    nobody here, or to somebody of another name.
    """
    try:
        status = (proc / str(writer.pid) / "status").read_text(errors="replace")
    except OSError:
        return writer
    found = _STATUS.match(status)
    if found is None or found["name"] != writer.name:
        return writer
    return Writer(writer.name, int(found["process"]))
