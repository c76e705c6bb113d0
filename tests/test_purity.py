"""Every module is pure unless pyproject.toml lists it as an edge."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts.edges import edges, is_edge, modules

FORBIDDEN = {
    *("aiohttp", "asyncio", "concurrent", "ctypes", "fcntl", "gc", "glob", "logging", "mmap"),
    *("multiprocessing", "os", "pathlib", "platform", "pwd", "queue", "random", "resource"),
    *("sched", "secrets", "select", "selectors", "shutil", "signal", "socket", "socketserver"),
    *("ssl", "subprocess", "tempfile", "termios", "threading", "time", "tty", "urllib.request"),
}
# inet_pton and inet_ntop are functions on values, and forty times as fast as ipaddress.
ALLOWED = {"base.inet": {"socket"}}


def imported(path: Path) -> Iterator[str]:
    """The names of all modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


def mistakes(module: str, path: Path, listed: list[str]) -> Iterator[str]:
    for name in set(imported(path)):
        top = name.partition(".")[0]
        own = name.removeprefix("kubeproxy.")
        if {top, name} & (FORBIDDEN - ALLOWED.get(module, set())):
            yield f"{module} imports {name}"
        elif own != name and own in modules() and is_edge(own, listed):
            yield f"{module} imports {own}, which is an edge"


def test_pure_modules_import_no_io_and_no_edge() -> None:
    listed = edges()
    found = [
        mistake
        for module, path in modules().items()
        if not is_edge(module, listed)
        for mistake in mistakes(module, path, listed)
    ]
    assert found == []


def test_an_edge_is_listed_only_where_it_is_one() -> None:
    """A module that has become pure leaves the list."""
    listed = edges()
    named = [entry for entry in listed if not entry.endswith(".*")]
    assert [entry for entry in named if entry not in modules()] == []
    assert [entry for entry in named if not any(mistakes(entry, modules()[entry], listed))] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import os.path", "probe imports os.path"),
        ("from pathlib import Path", "probe imports pathlib"),
        ("def f():\n    import time", "probe imports time"),
        ("from kubeproxy.linux import sysctl", "probe imports linux.sysctl, which is an edge"),
        ("from kubeproxy.linux.sysctl import f", "probe imports linux.sysctl, which is an edge"),
        ("import msgspec", ""),
        ("from kubeproxy.base.inet import Family", ""),
    ],
)
def test_what_counts_as_a_mistake(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "probe.py"
    path.write_text(text)
    assert (found in set(mistakes("probe", path, ["linux.*"]))) is bool(found)
