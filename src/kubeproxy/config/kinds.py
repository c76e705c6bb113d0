"""The kinds of values that flags take: how each is written, read, and shown again."""

import csv
import operator
import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from kubeproxy.base import gotext
from kubeproxy.base.inet import parse_address
from kubeproxy.base.version import KUBERNETES_VERSION
from kubeproxy.config.errors import ValueTextError
from kubeproxy.config.types import VModuleItem
from kubeproxy.config.values import (
    Duration,
    Quantity,
    parse_bool,
    parse_duration,
    parse_float32,
    parse_int32,
    parse_level,
    parse_quantity,
    split_host_port,
)

_SEMANTIC: Final = re.compile(r"v(\d+\.\d+\.\d+)(?:[-+][0-9A-Za-z.+-]+)?", re.ASCII)


def render(value: object) -> str:
    """A value as text, such as it is logged and shown as a default."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return gotext.number(value)
        case Mapping():
            return ",".join(f"{key}={render(value[key])}" for key in sorted(value))
        case tuple():
            return f"[{','.join(map(str, value))}]"
        case _:
            return str(value)


class FlagKind(msgspec.Struct, frozen=True):
    """A kind of value: its name in the usage text, and its reading."""

    name: str
    parse: Callable[[str], object]
    """Raises ValueTextError."""
    bare: str | None = None
    """The value of a flag that is given without one; None when it needs one."""
    extend: Callable[[object, object], object] | None = None
    """How a repeated flag adds to the value so far; None when the last one counts."""
    render: Callable[[object], str] = render


def _ip(text: str) -> str:
    """An address, kept as it was written; empty for none."""
    if text and parse_address(text) is None:
        raise ValueTextError(f"{gotext.quote(text)} is not a valid IP address")
    return text


def _ip_port(text: str) -> str:
    """An address with or without a port, kept as it was written; empty for none."""
    if not text or parse_address(text) is not None:
        return text
    try:
        host, port = split_host_port(text)
    except ValueTextError as error:
        raise ValueTextError(
            f"{gotext.quote(text)} is not in a valid format (ip or ip:port): {error}"
        ) from error
    if parse_address(host) is None:
        raise ValueTextError(f"{gotext.quote(host)} is not a valid IP address")
    if not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise ValueTextError(f"{gotext.quote(port)} is not a valid number")
    return text


def _strings(text: str) -> tuple[str, ...]:
    """A comma-separated list; an item may be quoted."""
    return tuple(next(csv.reader([text]))) if text else ()


def _switches(text: str) -> dict[str, bool]:
    """`A=true,B=false`."""
    switches: dict[str, bool] = {}
    for pair in filter(None, text.split(",")):
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not equals:
            raise ValueTextError("malformed pair, expect string=bool")
        try:
            switches[key] = parse_bool(value)
        except ValueTextError as error:
            raise ValueTextError(f"invalid value of {key}: {value}, err: {error}") from error
    return switches


def _vmodule(text: str) -> tuple[VModuleItem, ...]:
    """`pattern=N,...`."""
    items: list[VModuleItem] = []
    for pair in filter(None, text.split(",")):
        pattern, _, level = pair.partition("=")
        if not pattern or not level or "=" in level:
            raise ValueTextError(f"{gotext.quote(pair)} does not have the pattern=N format")
        try:
            items.append(VModuleItem(pattern, parse_level(level)))
        except ValueTextError as error:
            raise ValueTextError(f"parsing verbosity in {gotext.quote(pair)}: {error}") from error
    return tuple(items)


def _render_vmodule(value: object) -> str:
    items = value if isinstance(value, tuple) else ()
    return ",".join(f"{item.file_pattern}={item.verbosity}" for item in items)


def _version(text: str) -> str:
    """`true`, `false`, `raw`, or a version to report instead of the built-in one."""
    if text == "raw":
        return text
    if not text.startswith("v"):
        return render(parse_bool(text))
    wanted, own = _SEMANTIC.fullmatch(text), _SEMANTIC.fullmatch(KUBERNETES_VERSION)
    if wanted is None:
        raise ValueTextError(f"could not parse {gotext.quote(text)} as version")
    if own is None or wanted[1] != own[1]:
        raise ValueTextError(
            f"version {gotext.quote(text)} must match major/minor/patch of default version"
            f" {gotext.quote(KUBERNETES_VERSION)}"
        )
    return text


STRING: Final = FlagKind("string", str)
BOOL: Final = FlagKind("", parse_bool, bare="true")
INT32: Final = FlagKind("int32", parse_int32)
FLOAT32: Final = FlagKind("float32", parse_float32)
DURATION: Final = FlagKind("duration", parse_duration)
IP: Final = FlagKind("ip", _ip)
IPPORT: Final = FlagKind("ipport", _ip_port)
STRINGS: Final = FlagKind("strings", _strings, extend=operator.add)
SWITCHES: Final = FlagKind("mapStringBool", _switches, extend=operator.or_)
LEVEL: Final = FlagKind("Level", parse_level)
VMODULE: Final = FlagKind("pattern=N,...", _vmodule, extend=operator.add, render=_render_vmodule)
VERSION: Final = FlagKind("version", _version, bare="true")
QUANTITY: Final = FlagKind("quantity", parse_quantity)

KIND_OF_TYPE: Final[Mapping[type, FlagKind]] = {
    bool: BOOL,
    int: INT32,
    float: FLOAT32,
    str: STRING,
    tuple: STRINGS,
    dict: SWITCHES,
    Duration: DURATION,
    Quantity: QUANTITY,
}
