"""`kubectl kubeproxy trace`: the connections that several nodes see, as they are made."""

import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import IO, Final

import msgspec

from kubeproxy.base.printable import printable
from kubeproxy.tools.command import display_of, say
from kubeproxy.tools.kubectl.podnames import PodNames
from kubeproxy.tools.kubectl.traces import Rows, seen
from kubeproxy.tools.layout import painted
from kubeproxy.tools.trace.lines import TracedLine

_LINE: Final = msgspec.json.Decoder(TracedLine)


class Said(msgspec.Struct, frozen=True):
    """A line of a node, and whether it should be a connection; "" when nothing more comes."""

    node: str
    line: str
    is_answer: bool


def follow(
    running: Mapping[str, subprocess.Popen[str]],
    names: PodNames,
    environ: Mapping[str, str],
    *,
    as_json: bool,
) -> int:
    """Show what all of them print until they end, or until Ctrl-C. 1 when one of them failed."""
    said: queue.SimpleQueue[Said] = queue.SimpleQueue()
    readers = [
        threading.Thread(target=_read, args=(node, stream, stream is process.stdout, said))
        for node, process in running.items()
        for stream in (process.stdout, process.stderr)
    ]
    for reader in readers:
        reader.start()
    display = display_of(sys.stdout, environ)
    rows = Rows(names, datetime.now(UTC).astimezone().tzinfo, display.width)
    if not as_json:
        _show(painted((rows.header(),), display))
    ended = False
    try:
        for each in _until_all_end(said, 2 * len(running)):
            traced = _connection(each)
            if traced is None:
                say(printable(f"{each.node}: {each.line}"), sys.stderr)
            elif as_json:
                _show(seen(traced, each.node).decode())
            else:
                for row in rows.rows(traced, each.node):
                    _show(painted((row,), display))
        ended = True
    except KeyboardInterrupt:
        return 0
    finally:
        for process in () if ended else running.values():
            process.terminate()
        for reader in readers:
            reader.join()
        codes = [process.wait() for process in running.values()]
    return int(any(codes))


def _until_all_end(said: "queue.SimpleQueue[Said]", streams: int) -> Iterator[Said]:
    while streams:
        each = said.get()
        if each.line:
            yield each
        else:
            streams -= 1


def _connection(said: Said) -> TracedLine | None:
    """The connection that a line is; None for a remark."""
    try:
        return _LINE.decode(said.line) if said.is_answer else None
    except msgspec.DecodeError:
        return None


def _read(
    node: str,
    stream: IO[str],
    is_answer: bool,  # noqa: FBT001  # an argument of a thread
    said: "queue.SimpleQueue[Said]",
) -> None:
    with stream:
        for line in filter(str.strip, stream):
            said.put(Said(node, line.rstrip("\n"), is_answer))
    said.put(Said(node, "", is_answer))


def _show(line: str) -> None:
    """Write a line that is read at once, also at the other end of a pipe."""
    say(line)
    sys.stdout.flush()
