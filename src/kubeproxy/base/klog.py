"""Log lines in the layout of Kubernetes' klog, as text or as JSON, on standard error.

Log pipelines parse these lines, so the layout is upstream's; messages are constant texts and the
data is in the pairs:

    klog.info("Opened healthcheck", v=2, service="ns/name", port=30080)
    klog.error("Failed to list", err=error, kind="Service")

This is an edge with state of its own (the settings of the process), as a log must be: it is
thread-safe, and a line that cannot be written is dropped without an error, because a full disk
behind standard error must not stop the proxying. Neither must a reader that does not read: see
`logstream`.
"""

import atexit
import contextlib
import json
import logging
import os
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import Enum
from fnmatch import fnmatchcase
from typing import Final, NamedTuple, TextIO

from kubeproxy.base import gotext
from kubeproxy.base.printable import printable

KEPT_CHARACTERS: Final = 256 * 1024
"""How much of the log is kept in memory, for whoever asks later."""


class LogSeverity(Enum):
    """How bad it is; the value is the letter that opens a text line."""

    INFO = "I"
    WARNING = "W"
    ERROR = "E"


class LogSettings(NamedTuple):
    """What to emit, how, and where."""

    verbosity: int = 0
    vmodule: tuple[tuple[str, int], ...] = ()
    """(glob on the file's base name without `.py`, verbosity); the first match counts."""
    json: bool = False
    split_stream: bool = False
    """Informational lines go to standard output, all others to standard error."""
    info_buffer_size: int = 0
    """With split streams: how many characters of informational lines may wait for a flush."""


class Record(NamedTuple):
    """One log message, with everything that its line depends on."""

    severity: LogSeverity
    message: str
    pairs: Mapping[str, object]
    v: int
    time_ns: int
    pid: int
    path: str
    line: int
    plain: bool = False


# --- the state of the process -----------------------------------------------------------------


class _State:
    """The settings, the verbosity found for each file, lines that wait, and the last lines."""

    def __init__(self) -> None:
        self.settings = LogSettings()
        self.verbosity_by_path: dict[str, int] = {}
        self.waiting: list[str] = []
        self.waiting_size = 0
        self.kept: deque[str] = deque()
        self.kept_size = 0


_state: Final = _State()
_lock: Final = threading.RLock()


def configure(settings: LogSettings) -> None:
    """Use these settings from now on; lines that wait under the old ones are written first."""
    with _lock:
        flush()
        _state.settings = settings
        _state.verbosity_by_path = {}


def settings() -> LogSettings:
    """The settings in force."""
    return _state.settings


def set_verbosity(verbosity: int) -> None:
    """Change the verbosity alone, as an operator does at run time over `/debug/flags/v`."""
    configure(_state.settings._replace(verbosity=verbosity))


def flush() -> None:
    """Write what is buffered; call it regularly and before the process ends."""
    with _lock:
        lines, _state.waiting, _state.waiting_size = _state.waiting, [], 0
        if lines:
            _write(sys.stdout, "".join(lines))


def recent() -> str:
    """The last lines, as they were written: so many that `KEPT_CHARACTERS` are not exceeded."""
    with _lock:
        return "".join(_state.kept)


# --- logging ----------------------------------------------------------------------------------


def enabled(v: int) -> bool:
    """Whether an informational line of level `v` of the calling file would be emitted."""
    return _enabled(v)


def info(message: str, /, *, v: int = 0, **pairs: object) -> None:
    """Log an informational message, at verbosity `v` and above."""
    if _enabled(v):
        _emit(_record(LogSeverity.INFO, message, pairs, v))


def plain(text: str, /, *, v: int = 0) -> None:
    """Log a line without quotes and pairs, such as `FLAG: --v="2"`."""
    if _enabled(v):
        _emit(_record(LogSeverity.INFO, text, {}, v)._replace(plain=True))


def warning(message: str, /, **pairs: object) -> None:
    """Log something that an operator may want to change."""
    _emit(_record(LogSeverity.WARNING, message, pairs, 0))


def error(message: str, /, *, err: BaseException | str | None = None, **pairs: object) -> None:
    """Log what failed and why."""
    if err is not None:
        pairs = {"err": err, **pairs}
    _emit(_record(LogSeverity.ERROR, message, pairs, 0))


def _enabled(v: int) -> bool:
    """Whether level `v` is on for the file of the caller's caller."""
    if v <= _state.settings.verbosity:
        return True
    if not _state.settings.vmodule:
        return False
    path = sys._getframe(2).f_code.co_filename  # noqa: SLF001  # inspect costs 100 times more
    found = _state.verbosity_by_path.get(path)
    if found is None:
        name = os.path.basename(path).removesuffix(".py")  # noqa: PTH119  # no pathlib at start-up
        levels = (level for glob, level in _state.settings.vmodule if fnmatchcase(name, glob))
        found = _state.verbosity_by_path[path] = next(levels, 0)
    return v <= found


def _record(severity: LogSeverity, message: str, pairs: Mapping[str, object], v: int) -> Record:
    """The record of a message of the caller's caller."""
    frame = sys._getframe(2)  # noqa: SLF001  # inspect costs 100 times more
    return Record(
        severity=severity,
        message=message,
        pairs=pairs,
        v=v,
        time_ns=time.time_ns(),
        pid=os.getpid(),
        path=frame.f_code.co_filename,
        line=frame.f_lineno,
    )


def _emit(record: Record) -> None:
    """Write the line of a record to the stream where it belongs."""
    with _lock:
        line = _line(record)
        _keep(line)
        if not _state.settings.split_stream or record.severity is not LogSeverity.INFO:
            _write(sys.stderr, line)
            return
        _state.waiting.append(line)
        _state.waiting_size += len(line)
        if _state.waiting_size > _state.settings.info_buffer_size:
            flush()


def _keep(line: str) -> None:
    """Keep a line, and forget the oldest ones when that is too much."""
    _state.kept.append(line)
    _state.kept_size += len(line)
    while _state.kept_size > KEPT_CHARACTERS:
        _state.kept_size -= len(_state.kept.popleft())


def _write(stream: TextIO | None, text: str) -> None:
    """Write and flush; a stream that is closed, full or gone loses the text."""
    if stream is None:
        return
    with contextlib.suppress(OSError, ValueError):
        try:
            stream.write(text)
        except UnicodeEncodeError:
            stream.write(text.encode("ascii", "backslashreplace").decode())
        stream.flush()


atexit.register(flush)


# --- layouts ----------------------------------------------------------------------------------


def _line(record: Record) -> str:
    return json_line(record) if _state.settings.json else text_line(record)


def text_line(record: Record) -> str:
    """`I0102 15:04:05.000000       7 file.py:12] "message" key="value"` and a line break."""
    seconds, nanoseconds = divmod(record.time_ns, gotext.SECOND)
    stamp = time.strftime("%m%d %H:%M:%S", time.localtime(seconds))
    name = record.path.rpartition("/")[2]
    message = record.message if record.plain else gotext.quote(record.message)
    pairs = "".join(f" {key}={_text_value(value)}" for key, value in record.pairs.items())
    return (
        f"{record.severity.value}{stamp}.{nanoseconds // 1000:06d} {record.pid:7d}"
        f" {name}:{record.line}] {message}{pairs}\n"
    )


def json_line(record: Record) -> str:
    """One JSON object: `ts` in milliseconds, `caller`, `msg`, `v`, the pairs, and `err` last."""
    pairs = dict(record.pairs)
    fields: dict[str, object] = {"ts": record.time_ns / gotext.MILLISECOND}
    if "logger" in pairs:
        fields["logger"] = pairs.pop("logger")
    fields["caller"] = f"{'/'.join(record.path.split('/')[-2:])}:{record.line}"
    fields["msg"] = record.message
    last: dict[str, object] = {}
    if record.severity is not LogSeverity.ERROR:
        fields["v"] = record.v
    elif "err" in pairs:
        last["err"] = pairs.pop("err")
    return _object({**fields, **pairs, **last}) + "\n"


def _text_value(value: object) -> str:
    """A value behind `key=`: text quoted, numbers bare, collections as JSON."""
    if not _is_text(value):
        return _json(value)
    text = _string(value)
    if "\n" not in text:
        return gotext.quote(text)
    text = text.removesuffix("\n")
    # Lines that do nothing to a terminal; tabs stay.
    lines = ["\t".join(map(printable, line.split("\t"))) for line in text.split("\n")]
    return "<\n" + "".join(f"\t{line}\n" for line in lines) + " >"


def _is_text(value: object) -> bool:
    """Whether a value is shown as text; an enum's member always is."""
    bare = (bool, int, float, Mapping, list, tuple, set, frozenset)
    return isinstance(value, Enum) or not (value is None or isinstance(value, bare))


def _json(value: object) -> str:
    """Compact JSON of any value, with numbers and the order of keys as Go writes them."""
    if _is_text(value):
        text = json.dumps(_string(value), ensure_ascii=False)
        return text if text.isprintable() else json.dumps(_string(value))
    match value:
        case float():
            return gotext.number(value)
        case Mapping():
            return _object({str(key): value[key] for key in sorted(value, key=str)})
        case set() | frozenset():
            return _json(sorted(value, key=str))
        case list() | tuple():
            return "[" + ",".join(map(_json, value)) + "]"
        case _:
            return json.dumps(value)


def _object(fields: Mapping[str, object]) -> str:
    """A JSON object with its fields in the order given."""
    return "{" + ",".join(f"{_json(key)}:{_json(item)}" for key, item in fields.items()) + "}"


def _string(value: object) -> str:
    """The text of a value that is neither number nor collection."""
    match value:
        case Enum():
            return value.value if isinstance(value.value, str) else value.name
        case str():
            return value
        case timedelta():
            return gotext.duration(value // timedelta(microseconds=1) * gotext.MICROSECOND)
        case bytes():
            return value.decode(errors="surrogateescape")
        case BaseException():
            return describe(value)
        case _:
            return str(value)


def lost_line(count: int) -> str:
    """The line in the place of so many dropped ones, in the current layout."""
    record = _record(
        LogSeverity.WARNING, "Log lines were dropped: the output was not read", {"lines": count}, 0
    )
    return _line(record)


def describe(error: BaseException) -> str:
    """The text of an exception; of a group, those of its members as `[a, b]`."""
    if isinstance(error, BaseExceptionGroup):
        texts = [describe(inner) for inner in error.exceptions]
        return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return str(error) or type(error).__name__


# --- the standard library's loggers -----------------------------------------------------------


class _Bridge(logging.Handler):
    """Turns records of the standard library's logging into lines of ours."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record of asyncio, aiohttp and the like."""
        pairs: dict[str, object] = {"logger": record.name}
        cause = record.exc_info[1] if record.exc_info else None
        if cause is not None:
            stack = "".join(traceback.format_exception(cause))
            pairs = {"err": cause, **pairs, "stack": stack}
        _emit(
            Record(
                severity=LogSeverity.ERROR
                if record.levelno >= logging.ERROR
                else LogSeverity.WARNING,
                message=record.getMessage(),
                pairs=pairs,
                v=0,
                time_ns=int(record.created * gotext.SECOND),
                pid=os.getpid(),
                path=record.pathname,
                line=record.lineno,
            )
        )


def bridge_logging() -> Callable[[], None]:
    """Send warnings and errors of the standard library's loggers here; the result undoes it."""
    bridge = _Bridge(logging.WARNING)
    root = logging.getLogger()
    root.addHandler(bridge)
    return lambda: root.removeHandler(bridge)
