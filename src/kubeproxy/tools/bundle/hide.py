"""Names and addresses in texts -> replacements, the same one each time.

What is a name is learnt from the texts themselves: the Services and nodes that the daemon knows,
and whatever stands where the log and the kernel's tools have names.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from hashlib import blake2b
from ipaddress import ip_address, ip_network
from typing import Final

import msgspec

KNOWN: Final = frozenset(
    {"default", "kube-dns", "kube-node-lease", "kube-proxy", "kube-public", "kube-system"}
    | {"kubernetes", "localhost", "local", "cluster", "svc"}
)
"""Names that every cluster has, and that say nothing about it."""

Replace = Callable[[str], str]

_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_QUALIFIED: Final = re.compile(rf"(?<![\w./-])({_LABEL})/({_LABEL})(?![\w/-])")
_OF_NODE: Final = re.compile(r'\b(?:node|hostname)="([^"]+)"')
_HOST: Final = re.compile(r"https?://([A-Za-z0-9.-]+)")
_WORD: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?")
_ADDRESS: Final = re.compile(
    r"(?<![\w.:-])(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*)"
    r"(?:/(\d{1,3}))?(?![\w]|\.\d)"
)


# --- names ------------------------------------------------------------------------------------


_KINDS: Final = {
    "namespace": "namespace",
    "service": "service",
    "node": "node",
    "hostnameOverride": "node",
}


def names_in_json(value: object) -> Iterator[tuple[str, str]]:
    """The names in a value, each with its kind: those in fields that are for names."""
    if isinstance(value, list):
        for each in value:
            yield from names_in_json(each)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in _KINDS and isinstance(item, str):
                yield item, _KINDS[key]
            elif key == "node" and isinstance(item, dict):
                yield str(item.get("name", "")), "node"
            else:
                yield from names_in_json(item)


def names_in(name: str, data: bytes) -> Iterator[tuple[str, str]]:
    """The names in a file, each with its kind."""
    if name.endswith((".json", ".jsonl")):
        for line in _lines(name, data):
            yield from names_in_json(_decoded(line))
    yield from names_in_text(data.decode(errors="replace"))


def _lines(name: str, data: bytes) -> list[bytes]:
    """The JSON values of a file."""
    return data.splitlines() if name.endswith(".jsonl") else [data]


def names_in_text(text: str) -> Iterator[tuple[str, str]]:
    """What stands where names stand, each with its kind."""
    for namespace, service in _QUALIFIED.findall(text):
        if not namespace.isdigit() and not service.isdigit():
            yield namespace, "namespace"
            yield service, "service"
    for node in _OF_NODE.findall(text):
        yield node, "node"
    for host in _HOST.findall(text):
        if not _is_address(host):
            yield host, "host"


def replacements(found: Iterable[tuple[str, str]]) -> dict[str, str]:
    """A replacement for each name; one that has two kinds has one replacement."""
    kinds: dict[str, str] = {}
    for name, kind in found:
        if name and name not in KNOWN:
            kinds.setdefault(name, kind)
    counts: dict[str, int] = {}
    new: dict[str, str] = {}
    for name, kind in sorted(kinds.items()):
        counts[kind] = counts.get(kind, 0) + 1
        new[name] = f"{kind}-{counts[kind]}"
    return new


def hiding_names(new: Mapping[str, str]) -> Replace:
    """What replaces the names in a text, wherever they are whole words or parts of a host name."""

    def word(found: re.Match[str]) -> str:
        whole = found[0]
        if whole in new:
            return new[whole]
        return ".".join(new.get(part, part) for part in whole.split("."))

    return lambda text: _WORD.sub(word, text)


# --- addresses --------------------------------------------------------------------------------


def hiding_addresses(secret: bytes) -> Replace:
    """What replaces the addresses in a text.

    Two addresses with a common prefix still have one of the same length, and prefixes stay
    prefixes: who is in whose range can be seen. Loopback and unspecified addresses stay.
    """

    @cache
    def bit(prefix: str) -> int:
        return blake2b(prefix.encode(), key=secret, digest_size=1).digest()[0] & 1

    @cache
    def hidden(text: str) -> str:
        address = ip_address(text)
        if address.is_loopback or address.is_unspecified:
            return text
        bits = f"{int(address):0{address.max_prefixlen}b}"
        mixed = (
            int(each) ^ bit(f"{address.version}{bits[:place]}") for place, each in enumerate(bits)
        )
        return str(type(address)(int("".join(map(str, mixed)), 2)))

    def replaced(found: re.Match[str]) -> str:
        text, length = found[0].partition("/")[0], found[1]
        if not _is_address(text):
            return found[0]
        if length is None:
            return hidden(text)
        try:
            return str(ip_network(f"{hidden(text)}/{length}", strict=False))
        except ValueError:  # no prefix: what follows the slash means something else
            return f"{hidden(text)}/{length}"

    return lambda text: _ADDRESS.sub(replaced, text)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


# --- parts ------------------------------------------------------------------------------------


def hidden(name: str, data: bytes, replace: Replace) -> bytes:
    """A file with all its texts replaced: JSON stays JSON, and keeps the names of its fields."""
    if name.endswith(".json"):
        return msgspec.json.format(msgspec.json.encode(_values(_decoded(data), replace)))
    if name.endswith(".jsonl"):
        lines = (_values(_decoded(line), replace) for line in _lines(name, data))
        return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    return replace(data.decode(errors="replace")).encode()


def _decoded(data: bytes) -> object:
    value: object = msgspec.json.decode(data)
    return value


def _values(value: object, replace: Replace) -> object:
    match value:
        case str():
            return replace(value)
        case list():
            return [_values(each, replace) for each in value]
        case dict():
            return {key: _values(each, replace) for key, each in value.items()}
        case _:
            return value
