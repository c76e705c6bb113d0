"""A YAML scalar to the value that it stands for, as the loader of upstream reads it.

It differs from PyYAML's own reading where that surprises: `1e3` is a number; `1:30` and
`2026-01-01` are text.
"""

import re
from typing import Final

import yaml

Scalar = bool | int | float | str | None

_TAG: Final = "tag:yaml.org,2002:"
_TRUE: Final = frozenset({"yes", "true", "on"})
_EXPONENT: Final = re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+", re.ASCII)
_OCTAL: Final = re.compile(r"^([-+]?)0(?=[0-7])")


def scalar(node: yaml.ScalarNode) -> Scalar:
    """The value of a scalar node."""
    text: str = node.value
    match node.tag.removeprefix(_TAG):
        case "null":
            return None
        case "bool":
            return text.lower() in _TRUE
        case "int" | "float" if ":" not in text:
            return _number(text)
        case "str" if not node.style and _EXPONENT.fullmatch(text):
            return float(text)
        case _:
            return text


def _number(text: str) -> Scalar:
    """A number in any of YAML's forms; text when an explicit tag called something else one."""
    plain = text.replace("_", "")
    try:
        return int(_OCTAL.sub(r"\g<1>0o", plain, count=1), 0)
    except ValueError:
        pass
    try:
        return float(plain.lower().replace(".inf", "inf").replace(".nan", "nan"))
    except ValueError:
        return text


def name_of(node: yaml.Node) -> str:
    """What a node is, in the words of JSON; a number comes with its text."""
    if isinstance(node, yaml.MappingNode):
        return "object"
    if not isinstance(node, yaml.ScalarNode):
        return "array"
    match scalar(node):
        case None:
            return "null"
        case bool():
            return "bool"
        case int() | float():
            return f"number {node.value}"
        case _:
            return "string"


def line_of(node: yaml.Node) -> int:
    """The line on which a node begins, counted from 1."""
    return int(node.start_mark.line) + 1
