"""Attributes of netlink have the kernel's names, and every name is used."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import kubeproxy

SOURCE = Path(kubeproxy.__file__).parent
BUILDERS = {"attribute", "nested", "text", "u32", "u64", "_data"}
READERS = {"attributes", "attributes_in", "body", "_verdict"}
KERNEL_NAME = re.compile(r"\b[A-Z][A-Z0-9_]{3,}\b")


def called(node: ast.AST) -> str:
    """The name of the function that is called; "" when the node is no such call."""
    match node:
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
            return name
    return ""


def is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def decoded_names(function: ast.AST) -> set[str]:
    """Names of attributes by their type: read by one of ours, or declared as such."""
    found = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and called(node.value) in READERS:
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        if isinstance(node, ast.arg) and node.annotation is not None:
            kind = ast.unparse(node.annotation)
            found |= {node.arg} if kind.endswith("[int, bytes]") else set()
    return found


def keys(function: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What is looked up by which key: with brackets, `get` or `in`."""
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript):
            yield node.value, node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "get" and node.args:
                yield node.func.value, node.args[0]
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In):
            yield node.comparators[0], node.left


def bare_numbers(code: str) -> list[int]:
    """The lines in which an attribute is written or read by its bare number."""
    found = set()
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called(node) in BUILDERS:
            found |= {each.lineno for each in node.args[:1] if is_number(each)}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = decoded_names(node)
            for value, key in keys(node):
                is_decoded = called(value) in READERS or (
                    isinstance(value, ast.Name) and value.id in names
                )
                if is_decoded and is_number(key):
                    found.add(key.lineno)
    return sorted(found)


@pytest.mark.parametrize(
    "line",
    [
        "return u32(1, 2)",
        "return nested(NAME, text(2, 'a'))",
        "return attributes(data)[1]",
        "return attributes_in(data).get(1, b'')",
        "return nf.attributes_in(data).get(1, b'')",
        "return nl.u32(1, 2)",
        "found = attributes(data); return found[1]",
        "found = attributes(data); return found.get(1)",
        "found = attributes(data); return 1 in found",
        "return given[1]",
    ],
)
def test_a_bare_number_is_found(line: str) -> None:
    head = "def function(data: bytes, given: dict[int, bytes]) -> object:\n    "
    assert bare_numbers(head + line) == [2]
    assert bare_numbers(head + re.sub(r"\b[12]\b", "NFTA_NAME", line)) == []


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(path, id=str(path.relative_to(SOURCE)))
        for path in sorted(SOURCE.rglob("*.py"))
        if "netlink" in path.read_text()
    ],
)
def test_attributes_have_names(file: Path) -> None:
    assert bare_numbers(file.read_text()) == []


def test_every_name_is_used() -> None:
    defined: set[str] = set()
    used: list[str] = []
    for path in SOURCE.rglob("*.py"):
        code = path.read_text()
        used += KERNEL_NAME.findall(code)
        if path.parent.name == "netlink":
            defined |= {
                name.id
                for node in ast.parse(code).body
                if isinstance(node, ast.Assign | ast.AnnAssign)
                for name in ast.walk(node)
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
            }
    assert [name for name in sorted(defined) if used.count(name) == 1] == []
