"""Which modules are edges: the list `tool.kubeproxy.edges` of pyproject.toml."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "kubeproxy"


@cache
def modules() -> Mapping[str, Path]:
    """Every module by its name below `kubeproxy`; packages are left out, as they hold no code."""
    return {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts): path
        for path in sorted(SOURCE.rglob("*.py"))
        if path.name != "__init__.py"
    }


def edges() -> list[str]:
    """The entries of the list: a module, or `package.*` for the modules of a package."""
    listed: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["kubeproxy"][
        "edges"
    ]
    return listed


def is_edge(module: str, listed: list[str]) -> bool:
    """Whether the module may do I/O."""
    return module in listed or f"{module.rpartition('.')[0]}.*" in listed
