"""The distribution's nft as a witness, where there is one: it lists what we read over netlink."""

import re
import shutil
from collections.abc import Sequence

import msgspec

from demo.cluster import Frontend
from lab.namespaces import Namespace

TABLE = ("ip", "kube-proxy")


class _Value(msgspec.Struct, frozen=True):
    concat: tuple[str | int, ...]


class _Counter(msgspec.Struct, frozen=True):
    packets: int


class _Element(msgspec.Struct, frozen=True):
    val: _Value
    counter: _Counter


class _Counting(msgspec.Struct, frozen=True):
    elem: _Element


class _Set(msgspec.Struct, frozen=True):
    elem: tuple[_Counting, ...] = ()


class _Object(msgspec.Struct, frozen=True):
    set: _Set | None = None


class _Listing(msgspec.Struct, frozen=True):
    nftables: tuple[_Object, ...]


def is_here() -> bool:
    """Whether this machine has the program."""
    return shutil.which("nft") is not None


def counters(node: Namespace, frontends: Sequence[Frontend]) -> dict[Frontend, int]:
    """How many connections nft lists for each frontend."""
    counted: dict[tuple[str | int, ...], int] = {}
    for name in ("service-connections", "nodeport-connections"):
        text = node.run(["nft", "-j", "list", "set", *TABLE, name])
        for found in msgspec.json.decode(text, type=_Listing).nftables:
            for each in found.set.elem if found.set else ():
                counted[each.elem.val.concat] = each.elem.counter.packets
    return {each: counted[_key(each)] for each in frontends if _key(each) in counted}


def _key(frontend: Frontend) -> tuple[str | int, ...]:
    """A frontend as nft lists it."""
    port = (frontend.protocol.name.lower(), frontend.port)
    return port if frontend.kind == "node port" else (frontend.address, *port)


def listed(node: Namespace) -> str:
    """The proxy's IPv4 table as text."""
    return node.run(["nft", "list", "table", *TABLE])


def excerpt(table: str, head: str, about: str = "") -> str:
    """One map or chain of a table's text; of a map's elements only those about something."""
    start = table.index(f"\t{head} {{\n")
    lines = table[start : table.index("\n\t}", start)].expandtabs(4).splitlines()[1:]
    text = "\n".join(line[4:] for line in lines if "comment" not in line)
    found = re.search(r"elements = \{(.*?)\}", text, re.DOTALL)
    text = f"{head} {{\n{text}"
    if found is None:
        return f"{text}\n}}"
    elements = [each.strip() for each in found[1].split(",")]
    shown = [each for each in elements if about in each]
    if len(shown) < len(elements):
        shown.append(f"... and {len(elements) - len(shown)} more")
    separator = ",\n                 "
    return text.replace(found[0], f"elements = {{ {separator.join(shown)} }}") + "\n}"
