"""The manual page: it is up to date, and groff has no complaint."""

import runpy
import subprocess
from pathlib import Path

import pytest

from kubeproxy.config.flags import FLAGS
from kubeproxy.config.flagset import visible
from kubeproxy.tools.names import TOOLS
from kubeproxy.tools.shell.manual import escaped

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "src/kubeproxy/tools/shell/kube-proxy.8"


def test_the_page_has_the_flags_and_commands_of_today() -> None:
    expected = runpy.run_path(str(ROOT / "scripts/manual"))["text"]()
    assert expected == PAGE.read_text(), "make golden writes it again"


def test_groff_shows_all_of_it_and_warns_of_nothing() -> None:
    shown = subprocess.run(
        ["groff", "-man", "-Tascii", "-wall", "-P-c", "-P-b", "-P-u", "-P-o", str(PAGE)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stderr == ""
    for flag in filter(visible, FLAGS):
        assert f"--{flag.name}" in shown.stdout
    for name in TOOLS:
        assert f"\n   {name}" in shown.stdout


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a-b", r"a\-b"),
        (".TH is none", r"\&.TH is none"),
        ("'text' or\n  more", r"\(aqtext\(aq or more"),
        (r"\n ~ ^", r"\en \(ti \(ha"),
    ],
)
def test_nothing_in_a_text_is_a_macro(text: str, expected: str) -> None:
    assert expected == escaped(text)
