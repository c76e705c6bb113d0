"""Only the folder of a mode and the registry know the name of a mode."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubeproxy.base.errors import OperatorError
from kubeproxy.dataplane.modes import MODES, all_modes, load_mode

SRC = Path(__file__).parents[1] / "src/kubeproxy"
REGISTRY = "dataplane/modes.py"

# Where a name is something else than our mode, with the reason.
EXCEPTIONS = {
    "config/document.py": "a section of our own has the name of its mode",
    "config/types.py": "sections of upstream's configuration have these names",
    "linux/xtables.py": "iptables is a program",
    "dataplane/xtables_text.py": "iptables is a program",
    "tools/trace/table.py": "a trace has an nftables table of its own, in every mode",
}


def named(text: str) -> Iterator[str]:
    """The modes that a module names: in a text, in an import, or as a member of an enum."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Constant(value=str(value)) if value in MODES:
                yield value
            case ast.ImportFrom(module=str(module)):
                yield from _imported(module)
                yield from (
                    each.name
                    for each in node.names
                    if module == "kubeproxy.dataplane" and each.name in MODES
                )
            case ast.Import():
                for each in node.names:
                    yield from _imported(each.name)
            case ast.Attribute(value=ast.Name(id="Mode"), attr=attr):
                if attr.lower() in MODES:
                    yield attr


def _imported(module: str) -> Iterator[str]:
    for mode in MODES:
        if f"{module}.".startswith(f"kubeproxy.dataplane.{mode}."):
            yield module


def exempt(path: str) -> bool:
    own = tuple(f"dataplane/{mode}/" for mode in MODES)
    return path == REGISTRY or path.startswith((*own, *EXCEPTIONS))


def test_only_a_mode_and_the_registry_name_it() -> None:
    paths = {str(path.relative_to(SRC)): path for path in SRC.rglob("*.py")}
    found = {name: set(named(path.read_text())) for name, path in paths.items()}
    assert {name: modes for name, modes in found.items() if modes and not exempt(name)} == {}


def test_every_exception_is_needed() -> None:
    for prefix in EXCEPTIONS:
        paths = [path for path in SRC.rglob("*.py") if prefix in f"{path.relative_to(SRC)}"]
        assert any(mode for path in paths for mode in named(path.read_text())), prefix


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('if mode == "ipvs": ...', ["ipvs"]),
        ('"ipvs mode"', []),
        ("Mode.IPVS", ["IPVS"]),
        ("Mode.name", []),
        (
            "from kubeproxy.dataplane.ipvs.apply import IpvsDataplane",
            ["kubeproxy.dataplane.ipvs.apply"],
        ),
        ("from kubeproxy.dataplane import ipvs", ["ipvs"]),
        ("import kubeproxy.dataplane.ipvs", ["kubeproxy.dataplane.ipvs"]),
        ("from kubeproxy.linux import ipvs", []),
    ],
)
def test_what_counts_as_a_name(text: str, found: list[str]) -> None:
    assert list(named(text)) == found


def test_every_mode_of_the_registry_has_its_name() -> None:
    assert list(MODES) == [mode.name for mode in all_modes()]
    assert len(MODES) == len(all_modes())
    with pytest.raises(OperatorError, match="unknown proxy mode 'kernelspace'"):
        load_mode("kernelspace")


LOADED = """
import sys
from kubeproxy.config.flags import parse_flags
from kubeproxy.config.load import load
from kubeproxy.config.validate import validate
from kubeproxy.dataplane.modes import MODES, MODULES
loaded = load(parse_flags(["--proxy-mode=nftables"]), MODES)
validate(loaded.config, loaded.gates, MODES)
print(*(name for name, module in MODULES.items() if module in sys.modules))
"""


def test_a_configuration_loads_its_own_mode_only() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, timeout=60
    )
    assert ended.stdout.split() == ["nftables"]
