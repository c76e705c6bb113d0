import asyncio
import io
import json
import logging
import re
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from enum import Enum, IntEnum
from pathlib import PurePosixPath

import pytest

from kubeproxy.base import klog
from kubeproxy.base.klog import LogSettings, LogSeverity, Record

HERE = "test_klog.py"


@pytest.fixture(autouse=True)
def _default_settings() -> Iterator[None]:
    klog.configure(LogSettings())
    yield
    klog.configure(LogSettings())


@pytest.fixture
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


class Colour(Enum):
    RED = "red"


class Number(IntEnum):
    ONE = 1


def record(
    severity: LogSeverity = LogSeverity.INFO, message: str = "Said", **pairs: object
) -> Record:
    return Record(
        severity=severity,
        message=message,
        pairs=pairs,
        v=0,
        time_ns=1_794_788_550_830_310_000,
        pid=4711,
        path="/srv/kubeproxy/serve/http.py",
        line=228,
    )


def value_of(value: object) -> str:
    return klog.text_line(record(key=value)).partition(" key=")[2].removesuffix("\n")


# --- text -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_utc")
@pytest.mark.parametrize(
    ("severity", "letter"),
    [(LogSeverity.INFO, "I"), (LogSeverity.WARNING, "W"), (LogSeverity.ERROR, "E")],
)
def test_a_text_line_has_level_time_pid_and_caller(severity: LogSeverity, letter: str) -> None:
    expected = f'{letter}1116 00:22:30.830310    4711 http.py:228] "Said" port=80\n'
    assert expected == klog.text_line(record(severity, port=80))


@pytest.mark.usefixtures("_utc")
def test_a_long_pid_takes_the_room_that_it_needs() -> None:
    line = klog.text_line(record()._replace(pid=12345678))
    assert line.startswith("I1116 00:22:30.830310 12345678 http.py:228] ")


def test_a_message_is_quoted() -> None:
    assert klog.text_line(record(message='a "b"')).endswith('] "a \\"b\\""\n')


def test_a_plain_message_is_not() -> None:
    line = klog.text_line(record(message='FLAG: --v="1"')._replace(plain=True))
    assert line.endswith('] FLAG: --v="1"\n')


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("text", '"text"', id="text-is-quoted"),
        pytest.param(5, "5", id="numbers-are-bare"),
        pytest.param(2.0, "2", id="floats-are-numbers"),
        pytest.param(float("inf"), '"+Inf"', id="infinity-is-quoted"),
        pytest.param(True, "true", id="booleans-are-bare"),
        pytest.param(None, "null", id="nothing-is-null"),
        pytest.param(["a", 1], '["a",1]', id="lists-are-json"),
        pytest.param(("é<", None), '["é<",null]', id="json-is-not-escaped-more-than-needed"),
        pytest.param({"b": 1.0, "a": [True]}, '{"a":[true],"b":1}', id="maps-are-sorted-json"),
        pytest.param({"y", "x"}, '["x","y"]', id="sets-are-sorted"),
        pytest.param(frozenset({"x"}), '["x"]', id="frozen-sets-too"),
        pytest.param(timedelta(milliseconds=99.1), '"99.1ms"', id="durations-are-go-text"),
        pytest.param(Colour.RED, '"red"', id="an-enum-shows-its-text"),
        pytest.param(Number.ONE, '"ONE"', id="an-enum-of-numbers-shows-its-name"),
        pytest.param(PurePosixPath("/a"), '"/a"', id="other-objects-show-their-text"),
        pytest.param(b"a\xff", r'"a\xff"', id="bytes-are-text"),
        pytest.param(ValueError("bad"), '"bad"', id="an-exception-shows-what-it-says"),
        pytest.param(TimeoutError(), '"TimeoutError"', id="a-silent-exception-shows-its-type"),
        pytest.param(
            ExceptionGroup("g", [ValueError("a"), ExceptionGroup("h", [OSError("b")])]),
            '"[a, b]"',
            id="a-group-shows-its-members",
        ),
        pytest.param("a\nb", "<\n\ta\n\tb\n >", id="lines-are-indented"),
        pytest.param("a\nb\n", "<\n\ta\n\tb\n >", id="a-last-line-break-adds-nothing"),
        pytest.param(
            "a\x1b[2J\tb\r\n\x9bc\u202e",
            "<\n\ta\ufffd[2J\tb\ufffd\n\t\ufffdc\ufffd\n >",
            id="lines-do-nothing-to-a-terminal",
        ),
        pytest.param(["é\x9b\x1b"], r'["\u00e9\u009b\u001b"]', id="nor-do-lists"),
        pytest.param({"\x9b": "\x7f"}, r'{"\u009b":"\u007f"}', id="nor-do-maps"),
    ],
)
def test_values_in_text(value: object, expected: str) -> None:
    assert expected == value_of(value)


# --- JSON -------------------------------------------------------------------------------------


def test_a_json_line_has_its_fields_in_order() -> None:
    expected = (
        '{"ts":1794788550830.31,"caller":"serve/http.py:228","msg":"Said","v":0,'
        '"port":80,"took":"2s"}\n'
    )
    assert expected == klog.json_line(record(port=80, took=timedelta(seconds=2)))


def test_a_json_error_has_no_level_and_its_cause_comes_last() -> None:
    expected = (
        '{"ts":1794788550830.31,"caller":"serve/http.py:228","msg":"Said","port":80,'
        '"err":"broken"}\n'
    )
    line = klog.json_line(record(LogSeverity.ERROR, err=OSError("broken"), port=80))
    assert expected == line


def test_a_json_error_may_have_no_cause() -> None:
    assert "err" not in json.loads(klog.json_line(record(LogSeverity.ERROR)))


def test_the_logger_comes_after_the_time() -> None:
    fields = json.loads(klog.json_line(record(port=80, logger="asyncio")))
    assert list(fields) == ["ts", "logger", "caller", "msg", "v", "port"]


def test_a_json_line_is_one_line() -> None:
    assert klog.json_line(record(key="a\nb")).count("\n") == 1


# --- saying things ----------------------------------------------------------------------------


def test_lines_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    klog.info("First", n=1)
    klog.warning("Second", n=2)
    klog.error("Third", err="broken", n=3)
    klog.error("Fourth")
    out, err = capsys.readouterr()
    bodies = [line.partition("] ")[2] for line in err.splitlines()]
    assert out == ""
    assert bodies == ['"First" n=1', '"Second" n=2', '"Third" err="broken" n=3', '"Fourth"']


def test_a_line_names_the_file_and_line_of_its_caller(capsys: pytest.CaptureFixture[str]) -> None:
    line_number = sys._getframe().f_lineno + 1
    klog.info("Here")
    klog.plain("Here")
    klog.warning("Here")
    klog.error("Here")
    found = re.findall(r"(\S+):(\d+)\]", capsys.readouterr().err)
    assert [(HERE, str(line_number + step)) for step in range(4)] == found


def test_a_pair_may_be_called_message(capsys: pytest.CaptureFixture[str]) -> None:
    klog.info("Said", message="x")
    assert capsys.readouterr().err.endswith('] "Said" message="x"\n')


def test_lines_above_the_verbosity_are_not_said(capsys: pytest.CaptureFixture[str]) -> None:
    klog.configure(LogSettings(verbosity=2))
    klog.info("Shown", v=2)
    klog.info("Hidden", v=3)
    klog.plain("hidden too", v=3)
    assert klog.enabled(2)
    assert not klog.enabled(3)
    assert capsys.readouterr().err.endswith('] "Shown"\n')


def test_the_verbosity_can_change_alone() -> None:
    klog.configure(LogSettings(json=True))
    klog.set_verbosity(4)
    assert LogSettings(verbosity=4, json=True) == klog.settings()


@pytest.mark.parametrize(
    ("vmodule", "expected"),
    [
        pytest.param((("test_klog", 4),), True, id="the-name-of-the-file"),
        pytest.param((("test_*", 4),), True, id="a-pattern"),
        pytest.param((("test_klog", 3),), False, id="not-enough"),
        pytest.param((("other", 9),), False, id="another-file"),
        pytest.param((("test_*", 1), ("test_klog", 9)), False, id="the-first-match-counts"),
    ],
)
def test_single_files_have_their_verbosity(
    vmodule: tuple[tuple[str, int], ...],
    expected: bool,  # a column of the table
    capsys: pytest.CaptureFixture[str],
) -> None:
    klog.configure(LogSettings(verbosity=1, vmodule=vmodule))
    klog.info("Deep", v=4)
    assert expected == klog.enabled(4)
    assert expected == bool(capsys.readouterr().err)


def test_json_is_said_when_configured(capsys: pytest.CaptureFixture[str]) -> None:
    klog.configure(LogSettings(json=True))
    klog.plain('FLAG: --v="1"')
    fields = json.loads(capsys.readouterr().err)
    assert fields["msg"] == 'FLAG: --v="1"'
    assert re.fullmatch(rf"\w+/{HERE}:\d+", fields["caller"])


def test_split_streams_send_information_to_standard_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    klog.configure(LogSettings(split_stream=True))
    klog.info("Good")
    klog.warning("Odd")
    klog.error("Bad")
    out, err = capsys.readouterr()
    assert out.endswith('] "Good"\n')
    assert re.findall(r'\] "(\w+)"', err) == ["Odd", "Bad"]


def test_buffered_information_waits_for_room_or_a_flush(
    capsys: pytest.CaptureFixture[str],
) -> None:
    klog.configure(LogSettings(split_stream=True, info_buffer_size=150))
    klog.info("One")
    assert capsys.readouterr().out == ""
    klog.flush()
    assert capsys.readouterr().out.endswith('] "One"\n')
    klog.flush()
    assert capsys.readouterr().out == ""
    for _ in range(4):
        klog.info("Two")
    assert capsys.readouterr().out.count("Two") >= 3


def test_new_settings_flush_what_waits(capsys: pytest.CaptureFixture[str]) -> None:
    klog.configure(LogSettings(split_stream=True, info_buffer_size=1000))
    klog.info("Waiting")
    klog.configure(LogSettings())
    assert "Waiting" in capsys.readouterr().out


def test_threads_do_not_mix_their_lines(capsys: pytest.CaptureFixture[str]) -> None:
    def speak(name: str) -> None:
        for _ in range(50):
            klog.info("Said", text=name * 200)

    threads = [threading.Thread(target=speak, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 100
    assert all(re.search(r'"Said" text="(a{200}|b{200})"$', line) for line in lines)


@pytest.mark.parametrize("stream", [pytest.param(None, id="gone"), pytest.param("", id="closed")])
def test_a_line_that_cannot_be_written_is_lost(
    stream: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", stream if stream is None else closed)
    klog.error("This is lost")
    monkeypatch.undo()


def test_what_the_stream_cannot_encode_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    ascii_only = io.TextIOWrapper(raw, encoding="ascii")
    monkeypatch.setattr(sys, "stderr", ascii_only)
    klog.info("Hällo")
    monkeypatch.undo()
    assert raw.getvalue().endswith(b'"H\\xe4llo"\n')


def test_the_line_about_lost_ones_has_the_layout_in_force() -> None:
    expected = r'W\d{4} \S+ +\d+ \S+\] "Log lines were dropped: the output was not read" lines=7\n'
    assert re.fullmatch(expected, klog.lost_line(7))
    klog.configure(LogSettings(json=True))
    assert json.loads(klog.lost_line(7))["lines"] == 7


# --- the standard library's loggers -----------------------------------------------------------


@pytest.fixture
def _bridge() -> Iterator[None]:
    undo = klog.bridge_logging()
    yield
    undo()


@pytest.mark.usefixtures("_bridge")
def test_warnings_of_other_loggers_come_out_in_our_layout(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logging.getLogger("aiohttp.server").info("not this")
    logging.getLogger("aiohttp.server").warning("slow %s", "client")
    logging.getLogger("asyncio").error("broken")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert re.fullmatch(
        rf'W\d{{4}} \S+ +\d+ {HERE}:\d+\] "slow client" logger="aiohttp.server"', lines[0]
    )
    assert re.fullmatch(rf'E\d{{4}} \S+ +\d+ {HERE}:\d+\] "broken" logger="asyncio"', lines[1])


@pytest.mark.usefixtures("_bridge")
def test_an_exception_of_another_logger_comes_with_its_stack(
    capsys: pytest.CaptureFixture[str],
) -> None:
    try:
        int("x")
    except ValueError:
        logging.getLogger("asyncio").exception("Failed")
    line = capsys.readouterr().err
    assert '"Failed" err="invalid literal' in line
    assert ' logger="asyncio" stack=<\n\tTraceback' in line
    assert line.endswith("base 10: 'x'\n >\n")


@pytest.mark.usefixtures("_bridge")
async def test_a_lost_exception_of_a_task_is_logged(capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.get_running_loop().call_exception_handler({"message": "Task lost its exception"})
    assert '"Task lost its exception" logger="asyncio"' in capsys.readouterr().err


def test_the_last_lines_are_kept() -> None:
    klog.info("Older")
    for number in range(3):
        klog.info("Long", text="x" * (klog.KEPT_CHARACTERS // 3), number=number)
    kept = klog.recent()
    assert len(kept) <= klog.KEPT_CHARACTERS
    assert "Older" not in kept
    assert kept.endswith(" number=2\n")
    assert [number for number in range(3) if f" number={number}\n" in kept] == [1, 2]
