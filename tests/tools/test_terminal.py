"""Lines, columns and colours: for a terminal of some width, and for a pipe."""

import io
import os
import pty
import sys
from collections.abc import Mapping

import pytest

from kubeproxy.tools.terminal import (
    Column,
    Look,
    Span,
    Style,
    cut,
    line,
    look_of,
    note,
    painted,
    prose,
    say,
    show,
    table,
)

WIDE = Look()
HEADS = (Column("NAME", least=4), Column("COUNT", right=True), Column("WHERE", least=5))
ROWS: list[tuple[str | Span, ...]] = [
    ("shop/cart", "7", "10.112.0.21"),
    ("a-very-long-namespace/name", Span("1234567", Style.RED), ""),
]


def texts(width: int | None) -> list[str]:
    return [painted(each, WIDE) for each in table(HEADS, ROWS, width)]


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        pytest.param(
            None,
            [
                "NAME                          COUNT  WHERE",
                "shop/cart                         7  10.112.0.21",
                "a-very-long-namespace/name  1234567",
            ],
            id="a-pipe-gets-everything",
        ),
        pytest.param(
            36,
            [
                "NAME              COUNT  WHERE",
                "shop/cart             7  10.112.0.21",
                "a-very-long-n…  1234567",
            ],
            id="the-widest-gives-way-first",
        ),
        pytest.param(
            23,
            [
                "NAME      COUNT  WHERE",
                "shop/…        7  10.11…",
                "a-ver…  1234567",
            ],
            id="then-all-that-may",
        ),
        pytest.param(
            1,
            [
                "NAME    COUNT  WHERE",
                "sho…        7  10.1…",
                "a-v…  1234567",
            ],
            id="but-not-beyond-their-least",
        ),
    ],
)
def test_columns(width: int | None, expected: list[str]) -> None:
    assert expected == texts(width)


def test_a_table_without_rows_is_its_header() -> None:
    assert [painted(each, WIDE) for each in table(HEADS, [], 80)] == ["NAME  COUNT  WHERE"]


LINE = line("red ", Span("wine", Style.RED), " and more")


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        pytest.param(17, "red wine and more", id="it-fits"),
        pytest.param(16, "red wine and mo…", id="one-too-many"),
        pytest.param(6, "red w…", id="inside-a-style"),
        pytest.param(1, "…", id="no-room-but-for-the-mark"),
        pytest.param(0, "", id="no-room-at-all"),
    ],
)
def test_lines_are_cut(width: int, expected: str) -> None:
    assert expected == "".join(span.text for span in cut(LINE, width))
    assert expected == painted(LINE, Look(width))


def test_colours() -> None:
    assert painted(LINE, Look(colours=True)) == "red \x1b[31mwine\x1b[0m and more"


def test_names_do_nothing_to_a_terminal() -> None:
    hostile = line("shop/\x1b[2Jcart\r\n", Span("\x9b31m\u202e", Style.RED))
    assert painted(hostile, WIDE) == "shop/\ufffd[2Jcart\ufffd\ufffd\ufffd31m\ufffd"


def test_one_long_text_does_not_make_every_row_long() -> None:
    ports = ",".join(f"p{number}:{number}/UDP" for number in range(2000))
    rows = [("rtp", ports, "1/1"), ("web", "80/TCP", "3/3")]
    heads = (Column("NAME"), Column("PORTS", least=10), Column("ENDPOINTS", right=True))
    head, rtp, web = (painted(each, Look()) for each in table(heads, rows, None))
    assert rtp == f"rtp   {ports}        1/1"
    assert (len(head), len(web)) == (117, 117)
    assert [len(painted(each, Look())) for each in table(heads, rows, 40)] == [40, 40, 40]


SENTENCE = "it is on node heron, and the traffic policy is Local"


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        pytest.param(None, [f"  {SENTENCE}"], id="a-pipe-gets-one-line"),
        pytest.param(80, [f"  {SENTENCE}"], id="it-fits"),
        pytest.param(
            40,
            ["  it is on node heron, and the traffic", "    policy is Local"],
            id="it-goes-on-in-the-next-line",
        ),
    ],
)
def test_prose(width: int | None, expected: list[str]) -> None:
    assert expected == [painted(each, Look(width)) for each in prose(SENTENCE, width, "  ")]


def test_names_are_not_broken() -> None:
    lines = prose("node:30080/TCP: served by shop/cart-of-a-client:http", 34)
    assert [painted(each, Look()) for each in lines] == [
        "node:30080/TCP: served by",
        "  shop/cart-of-a-client:http",
    ]


def test_a_pipe_has_neither_width_nor_colours() -> None:
    assert Look() == look_of(io.StringIO(), {"TERM": "xterm"})


@pytest.mark.parametrize(
    ("environ", "colours"),
    [
        pytest.param({"TERM": "xterm"}, True, id="a-usual-terminal"),
        pytest.param({"TERM": "xterm", "NO_COLOR": ""}, True, id="empty-is-not-set"),
        pytest.param({"TERM": "xterm", "NO_COLOR": "1"}, False, id="somebody-wants-none"),
        pytest.param({"TERM": "dumb"}, False, id="a-dumb-terminal"),
        pytest.param({}, False, id="a-terminal-that-does-not-say-what-it-is"),
    ],
)
def test_a_terminal(environ: Mapping[str, str], colours: bool) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as stream:
        assert Look(None, colours) == look_of(stream, environ)  # nobody has set its size
    os.close(ours)


def test_what_an_encoding_does_not_have() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    say("\xe9t\xe9 \u2026 \u2588", stream)
    stream.seek(0)
    assert stream.read() == "\xe9t\xe9 ? ?\n"


def test_shown_lines_have_no_blanks_at_their_end(capsys: pytest.CaptureFixture[str]) -> None:
    show([line("a  "), line()], WIDE)
    assert capsys.readouterr() == ("a\n\n", "")


def test_notes_are_no_part_of_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    note("by \x1b[1mheron")
    assert capsys.readouterr() == ("", "note: by \ufffd[1mheron\n")
    assert sys.stdout is not sys.stderr
