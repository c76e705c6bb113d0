"""How a subcommand is called, and how its answer is printed: on a terminal and into a pipe."""

import io
import os
import pty
import sys
from collections.abc import Mapping

import pytest

from kubeproxy.tools.command import display_of, note, say, show
from kubeproxy.tools.layout import Display, line


def test_a_pipe_has_neither_width_nor_colours() -> None:
    assert Display() == display_of(io.StringIO(), {"TERM": "xterm"})


@pytest.mark.parametrize(
    ("environ", "colours"),
    [
        pytest.param({"TERM": "xterm"}, True, id="a-usual-terminal"),
        pytest.param({"TERM": "xterm", "NO_COLOR": ""}, True, id="empty-is-not-set"),
        pytest.param({"TERM": "xterm", "NO_COLOR": "1"}, False, id="the-user-wants-none"),
        pytest.param({"TERM": "dumb"}, False, id="a-dumb-terminal"),
        pytest.param({}, False, id="a-terminal-that-does-not-say-what-it-is"),
    ],
)
def test_a_terminal(environ: Mapping[str, str], colours: bool) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as stream:
        assert Display(None, colours) == display_of(stream, environ)  # it has no size yet
    os.close(ours)


def test_what_an_encoding_does_not_have() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    say("\xe9t\xe9 \u2026 \u2588", stream)
    stream.seek(0)
    assert stream.read() == "\xe9t\xe9 ? ?\n"


def test_shown_lines_have_no_blanks_at_their_end(capsys: pytest.CaptureFixture[str]) -> None:
    show([line("a  "), line()], Display())
    assert capsys.readouterr() == ("a\n\n", "")


def test_notes_are_no_part_of_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    note("by \x1b[1mheron")
    assert capsys.readouterr() == ("", "note: by \ufffd[1mheron\n")
    assert sys.stdout is not sys.stderr
