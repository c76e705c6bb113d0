import asyncio
import gc
import sys
import threading
import time

import pytest

from kubeproxy.base import klog
from kubeproxy.serve.http.answer import Answer
from kubeproxy.serve.http.request import Request
from kubeproxy.serve.metrics import debug as module
from kubeproxy.serve.metrics.debug import debug_page, sample_stacks, watch_allocations


async def ask(path: str, method: str = "GET", body: bytes = b"", **query: str) -> Answer:
    answer = debug_page(Request(method, path, query, body=body))
    return answer if isinstance(answer, Answer) else await answer


async def text(path: str, **query: str) -> str:
    answer = await ask(path, "GET", b"", **query)
    assert isinstance(answer.body, bytes)
    return answer.body.decode()


@pytest.mark.parametrize(
    ("method", "body", "status", "expected"),
    [
        pytest.param("PUT", b"3", 200, "successfully set klog.logging.verbosity to 3\n", id="set"),
        pytest.param(
            "PUT",
            b"abc",
            400,
            'strconv.ParseUint: parsing "abc": invalid syntax\n',
            id="no-number",
        ),
        pytest.param(
            "PUT", b"", 400, 'strconv.ParseUint: parsing "": invalid syntax\n', id="nothing"
        ),
        pytest.param(
            "PUT",
            b"99999999999",
            400,
            'strconv.ParseUint: parsing "99999999999": value out of range\n',
            id="too-much",
        ),
        pytest.param("GET", b"", 406, "unsupported http method\n", id="asked"),
    ],
)
async def test_the_verbosity(method: str, body: bytes, status: int, expected: str) -> None:
    klog.set_verbosity(1)
    answer = await ask("/debug/flags/v", method, body)
    assert (answer.status, answer.body) == (status, expected.encode())
    assert answer.headers == (
        ("Content-Type", "text/plain"),
        ("X-Content-Type-Options", "nosniff"),
    )
    assert klog.settings().verbosity == (3 if status == 200 else 1)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/debug/pprof", 302),
        ("/debug/pprof/", 200),
        ("/debug/pprof/trace", 404),
        ("/debug/flags", 200),
        ("/debug/flags/x", 200),
        ("/debug/", 404),
        ("/debug/flagsx", 404),
    ],
)
async def test_paths(path: str, status: int) -> None:
    assert status == (await ask(path)).status


async def test_the_index_names_every_profile() -> None:
    index = await text("/debug/pprof/")
    for name in ("allocs", "cmdline", "goroutine", "heap", "profile"):
        assert f"<a href='{name}'>" in index


async def test_the_command_line() -> None:
    assert await text("/debug/pprof/cmdline") == "\0".join(sys.orig_argv)


async def test_tasks_and_threads_are_shown_where_they_stand() -> None:
    async def wait_for_godot() -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(wait_for_godot(), name="godot")
    await asyncio.sleep(0)
    shown = await text("/debug/pprof/goroutine")
    task.cancel()
    assert "task godot\n  test_tasks_and_threads" in shown
    assert "thread MainThread\n" in shown


async def test_living_objects_by_type() -> None:
    head, first, *_ = (await text("/debug/pprof/heap")).splitlines()
    assert head.split()[:3] == ["bytes", "objects", "type"]
    size, count, kind = first.split()
    assert int(size) > 0
    assert int(count) > 1000
    assert "." in kind


async def test_frozen_objects_count_and_stay_frozen() -> None:
    gc.freeze()  # as a daemon does after its first sync
    _, first, *_ = (await text("/debug/pprof/heap")).splitlines()
    assert int(first.split()[1]) > 1000
    assert gc.get_freeze_count() > 1000


async def test_a_profile_is_of_the_seconds_asked_for() -> None:
    began = time.monotonic()
    stacks = await text("/debug/pprof/profile", seconds="1")
    assert 1 <= time.monotonic() - began < 20
    assert any(line.startswith("MainThread;") for line in stacks.splitlines())


@pytest.mark.parametrize("seconds", ["0", "301"])
async def test_seconds_have_limits(seconds: str) -> None:
    assert (await ask("/debug/pprof/profile", seconds=seconds)).status == 400


async def test_one_profile_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()

    def watch(seconds: float) -> str:
        go.wait(10)
        return f"{seconds}"

    monkeypatch.setattr(module, "watch_allocations", watch)
    first = asyncio.create_task(ask("/debug/pprof/allocs", seconds="-1"))
    await asyncio.sleep(0)
    assert (await ask("/debug/pprof/profile")).status == 500
    go.set()
    assert (await first).body == b"10.0"


def test_a_thread_is_sampled_with_what_it_does() -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="sleeper")
    thread.start()
    stacks = sample_stacks(0.05)
    stop.set()
    thread.join()
    (line,) = (line for line in stacks.splitlines() if line.startswith("sleeper;"))
    stack, count = line.rsplit(" ", 1)
    assert int(count) >= 1
    assert "Event.wait (threading.py)" in stack.split(";")


def test_memory_that_stays_is_shown_by_line() -> None:
    kept: list[bytes] = []
    stop = threading.Event()

    def allocate() -> None:
        while not stop.wait(0.001):
            kept.append(bytes(10_000))

    thread = threading.Thread(target=allocate)
    thread.start()
    shown = watch_allocations(0.2)
    stop.set()
    thread.join()
    assert "test_debug.py" in shown
