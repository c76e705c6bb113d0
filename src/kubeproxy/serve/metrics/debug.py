"""/debug/: what the process is doing right now, for people; only with `enableProfiling`.

The paths are those of Go's pprof. What they answer is text that people and flame graph tools read,
not Go's profiles: `curl -s .../debug/pprof/profile?seconds=10 | flamegraph.pl > profile.svg`.
"""

import asyncio
import gc
import html
import sys
import threading
import time
import traceback
import tracemalloc
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from types import FrameType

from kubeproxy.base import klog
from kubeproxy.config.errors import ValueTextError
from kubeproxy.config.values import parse_level
from kubeproxy.serve.http.answer import Answer, Page, not_found, text
from kubeproxy.serve.http.request import Request

_PROFILES = "/debug/pprof/"
_HTML = (("Content-Type", "text/html; charset=utf-8"), ("X-Content-Type-Options", "nosniff"))
_FLAG = (("Content-Type", "text/plain"), ("X-Content-Type-Options", "nosniff"))
_INTERVAL = 0.01
_LONGEST = 300.0
_MOST_LINES = 50
_busy = threading.Lock()


def debug_page(request: Request) -> Answer | Awaitable[Answer]:
    """The page of a path below /debug/."""
    path = request.path
    if path == "/debug/flags/v":
        return _set_verbosity(request)
    if path == "/debug/flags" or path.startswith("/debug/flags/"):
        body = "<html><title>/debug/flags/</title><body>PUT a number to <b>v</b>.</body></html>\n"
        return Answer(200, _HTML[:1], body.encode())
    if path == "/debug/pprof":
        body = f'<a href="{_PROFILES}">Found</a>.\n\n'
        return Answer(302, (_HTML[0], ("Location", _PROFILES)), body.encode())
    if path == _PROFILES:
        return _index()
    if path.startswith(_PROFILES):
        found = _PAGES.get(path.removeprefix(_PROFILES))
        return found[1](request) if found else text("Unknown profile\n", 404)
    return not_found(request)


def _set_verbosity(request: Request) -> Answer:
    if request.method != "PUT":
        return Answer(406, _FLAG, b"unsupported http method\n")
    try:
        level = parse_level(request.body.decode(errors="replace"))
    except ValueTextError as error:
        return Answer(400, _FLAG, f"{error}\n".encode())
    klog.set_verbosity(level)
    return Answer(200, _FLAG, f"successfully set klog.logging.verbosity to {level}\n".encode())


def _index() -> Answer:
    rows = "".join(
        f"<tr><td><a href='{name}'>{name}</a></td><td>{html.escape(about)}</td></tr>\n"
        for name, (about, _) in _PAGES.items()
    )
    body = f"<html><title>{_PROFILES}</title><body><table>\n{rows}</table></body></html>\n"
    return Answer(200, _HTML, body.encode())


# --- profiles ---------------------------------------------------------------------------------


async def _heap(_: Request) -> Answer:
    return text(await _in_thread(count_objects))


_PAGES: dict[str, tuple[str, Page]] = {
    "allocs": (
        "Which lines allocate memory that stays, watched for `seconds` (10).",
        lambda request: _watched(request, 10.0, watch_allocations),
    ),
    "cmdline": ("The command line of this process.", lambda _: text("\0".join(sys.orig_argv))),
    "goroutine": (
        "Where every task and every thread stands.",
        lambda _: text("\n".join((*_tasks(), *_threads()))),
    ),
    "heap": ("Which types the living objects are of.", _heap),
    "profile": (
        "Where all threads spend their time, sampled for `seconds` (30): collapsed stacks.",
        lambda request: _watched(request, 30.0, sample_stacks),
    ),
}


async def _watched(request: Request, usual: float, watch: Callable[[float], str]) -> Answer:
    """Watch for as long as the request says: one at a time, as it costs."""
    given = request.query.get("seconds", "")
    seconds = float(given) if given.isascii() and given.isdigit() else usual
    if not 0 < seconds <= _LONGEST:
        return text(f"seconds must be between 1 and {_LONGEST:.0f}\n", 400)
    if not _busy.acquire(blocking=False):
        return text("another profile is being taken, try again later\n", 500)
    try:
        return text(await _in_thread(lambda: watch(seconds)))
    finally:
        _busy.release()


async def _in_thread(work: Callable[[], str]) -> str:
    """Run it in a thread of its own, which does not keep the process from ending."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[str] = loop.create_future()

    def finish(result: str) -> None:
        if not done.cancelled():
            done.set_result(result)

    def run() -> None:
        result = work()
        if not loop.is_closed():
            loop.call_soon_threadsafe(finish, result)

    threading.Thread(target=run, name="profile", daemon=True).start()
    return await done


def sample_stacks(seconds: float) -> str:
    """Stacks of all other threads, collapsed, each with its number of samples."""
    own = threading.get_ident()
    found: Counter[str] = Counter()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for ident, name, frame in _running():
            if ident != own:
                found[";".join((name, *_functions(frame)))] += 1
        time.sleep(_INTERVAL)
    return "".join(f"{stack} {count}\n" for stack, count in found.most_common())


def _running() -> Iterator[tuple[int, str, FrameType]]:
    """Every thread: its number, its name, and where it stands."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():  # noqa: SLF001  # the only way there is
        yield ident, names.get(ident, "?"), frame


def _functions(frame: FrameType) -> list[str]:
    """The functions of a stack, the outermost first."""
    codes = [each.f_code for each, _ in traceback.walk_stack(frame)]
    return [f"{c.co_qualname} ({c.co_filename.rpartition('/')[2]})" for c in reversed(codes)]


def watch_allocations(seconds: float) -> str:
    """Lines that allocated memory which is still in use, with its bytes and blocks."""
    tracemalloc.start()
    try:
        time.sleep(seconds)
        kept = tracemalloc.take_snapshot().statistics("lineno")
    finally:
        tracemalloc.stop()
    lines = (f"{each.size:12d} {each.count:9d} {each.traceback}\n" for each in kept)
    return "       bytes    blocks line\n" + "".join(islice(lines, _MOST_LINES))


def count_objects() -> str:
    """The types of which there are most objects, with their number and bytes."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for each in _living():
        kind = f"{type(each).__module__}.{type(each).__qualname__}"
        counts[kind] += 1
        sizes[kind] += sys.getsizeof(each, 0)
    lines = (f"{sizes[k]:12d} {count:9d} {k}\n" for k, count in counts.most_common(_MOST_LINES))
    return "       bytes   objects type (only what the collector knows)\n" + "".join(lines)


def _living() -> list[object]:
    """All objects that the collector knows, with the frozen ones: most of a daemon's are."""
    gc.collect()  # or the garbage of now would be frozen, and stay
    frozen = gc.get_freeze_count()
    gc.unfreeze()
    living = gc.get_objects()
    if frozen:
        gc.freeze()
    return living


def _tasks() -> Iterator[str]:
    for task in sorted(asyncio.all_tasks(), key=asyncio.Task.get_name):
        yield f"task {task.get_name()}"
        for frame in task.get_stack():
            yield f"  {frame.f_code.co_qualname} {frame.f_code.co_filename}:{frame.f_lineno}"
        yield ""


def _threads() -> Iterator[str]:
    for _, name, frame in _running():
        yield f"thread {name}"
        yield "".join(traceback.format_stack(frame))
