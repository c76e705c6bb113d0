"""docs/plan.md: its commands print what stands there, and it names every effect."""

import re
import shlex
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from kubeproxy.app import cli
from kubeproxy.plan.outcome import HARMFUL, SENTENCES, Effect

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs/plan.md").read_text()
COUNT = re.compile(r"\d+ objects")
"""How many are written is for the mode to say, and changes with its rules."""
COMMANDS = re.findall(r"```sh\n(\.venv.*?)```\n\n```\n(.*?)```", DOCUMENT, re.DOTALL)


@pytest.mark.parametrize("number", range(2))
def test_the_commands_print_what_stands_there(
    number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command, printed = COMMANDS[number]
    line, _, text = command.partition("<<'EOF'\n")
    monkeypatch.chdir(ROOT)
    given = TextIOWrapper(BytesIO(text.removesuffix("EOF\n").encode()))
    monkeypatch.setattr(sys, "stdin", given)
    _, *arguments = shlex.split(line.replace("\\\n", " "))
    assert cli.main(arguments) == 1
    said = capsys.readouterr().out
    assert COUNT.sub("", said) == COUNT.sub("", printed)


def test_every_effect_is_named_in_order() -> None:
    rows = [f"| `{effect.value}` | {SENTENCES[effect]} |" for effect in Effect]
    assert "\n".join(rows) in DOCUMENT
    assert f"The first {len(HARMFUL)} are those with `!`" in DOCUMENT
