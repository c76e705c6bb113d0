"""The policy is written once, in `table.policy`: dataplanes read treatments and derive nothing."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import kubeproxy
from kubeproxy.table.policy import Policy

SOURCE = Path(kubeproxy.__path__[0])
SAMPLE = SOURCE / "dataplane/sample.py"  # makes entries, as the table does, for trials
DATAPLANES = sorted({*(SOURCE / "dataplane").rglob("*.py")} - {SAMPLE})
SETTINGS = {"internal_local", "external_local", "has_endpoints", "masquerade_all"}
"""From these the treatments are made."""


def names_in(source: str) -> Iterator[str]:
    """All that is imported by name, and all attributes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute):
            yield node.attr


def forbidden_in(source: str) -> set[str]:
    return {*names_in(source)} & {*SETTINGS, *Policy.__members__, "Policy", "policies"}


@pytest.mark.parametrize("module", DATAPLANES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_dataplane_looks_at_no_setting(module: Path) -> None:
    assert forbidden_in(module.read_text()) == set()


def test_settings_would_be_found() -> None:
    source = """
from kubeproxy.table.policy import Policy
def serves(entry): return entry.has_endpoints and entry.external is Policy.EXTERNAL_LOCAL
"""
    assert forbidden_in(source) == {"Policy", "has_endpoints", "EXTERNAL_LOCAL"}
