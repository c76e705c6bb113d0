"""The picture in docs/plan.md is what a terminal shows. `make screenshots` takes it again.

With KUBEPROXY_SCREENSHOTS=DIRECTORY, it is written there.
"""

import os
import re
import shlex
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from drawing import drawn
from terminals import in_terminal, plain

ROOT = Path(__file__).parents[3]
PICTURES = os.environ.get("KUBEPROXY_SCREENSHOTS")
COLUMNS = 100
COUNT = re.compile(r"\d+ objects")
"""How many are written is for the mode to say, and changes with its rules."""
SHOWN = "kube-proxy plan --mode nftables"
COMMAND = (
    "plan --manifests examples --cluster-cidr 10.64.0.0/14,fd40::/48 --node kestrel"
    " --proxy-mode iptables --mode nftables --limit 3"
)


@pytest.fixture(scope="module")
def said() -> str:
    """What is on the screen of a person who asks, with its colours."""
    command = [sys.executable, "-m", "kubeproxy", *shlex.split(COMMAND)]
    environment = {"PYTHONPATH": str(ROOT / "src"), "NO_COLOR": ""}
    here = Path.cwd()
    os.chdir(ROOT)
    try:
        with in_terminal(command, COLUMNS, 60, environment) as terminal:
            assert terminal.wait() == 1
            return terminal.said
    finally:
        os.chdir(here)


def test_the_picture_is_what_the_terminal_shows(said: str) -> None:
    picture = drawn(SHOWN, _answer(said), COLUMNS)
    if PICTURES:
        (Path(PICTURES) / "plan.svg").write_text(picture)
    taken = (ROOT / "docs/images/plan.svg").read_text()
    assert COUNT.sub("", taken) == COUNT.sub("", picture)


def test_it_fits_and_has_colours(said: str) -> None:
    answer = _answer(said)
    assert "\x1b[31m" in answer
    assert max(map(len, plain(answer).splitlines())) <= COLUMNS


def _answer(said: str) -> str:
    """Without progress and remarks on the error stream, which share the terminal."""
    return said.replace("\r\n", "\n").partition("\r\x1b[K")[2]


def test_a_picture_is_xml_with_all_that_was_said() -> None:
    root = ET.fromstring(drawn("x <y>", "a \x1b[31mred & \x1b[0mb\r\n\r\nc", 40))
    pieces = [text.strip() for text in root.itertext() if text.strip()]
    assert pieces == ["$", "x <y>", "a", "red &", "b", "c"]
