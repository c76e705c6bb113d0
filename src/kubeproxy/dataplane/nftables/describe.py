"""Elements as bytes -> elements as nft text, by the declaration of their set."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from kubeproxy.base.inet import Protocol, unpack
from kubeproxy.dataplane.nftables import program as names
from kubeproxy.dataplane.nftables.choices import Choice, chain_of, in_order, with_parts
from kubeproxy.dataplane.nftables.dump import chain_in, code_in
from kubeproxy.dataplane.nftables.elements import (
    Elements,
    entry_elements,
    joined_cidrs,
    node_elements,
    shared_elements,
    together,
    without_data,
)
from kubeproxy.dataplane.nftables.language import (
    CLASSID,
    INET_PROTO,
    INET_SERVICE,
    INTEGER,
    Datatype,
    Key,
    Program,
    Set,
)
from kubeproxy.dataplane.nftables.placed import Placed, choices, place
from kubeproxy.dataplane.nftables.render import chain_lines, render
from kubeproxy.dataplane.nftables.sources import (
    SourceChange,
    SourceLists,
    allowed_sources,
    list_elements,
)
from kubeproxy.dataplane.unfit import Unfit
from kubeproxy.linux.netlink import nftables as nft
from kubeproxy.linux.netlink.message import attributes
from kubeproxy.table.entries import Table
from kubeproxy.table.node import Node

# Elements of others may have protocols and verdicts that are not used here, or are unknown.
_PROTOCOL_WORD = {protocol.value: protocol.name.lower() for protocol in Protocol}
_VERDICT_WORD = {0: "drop", 1: "accept", -1: "continue", -3: "jump", -4: "goto", -5: "return"}


def value_text(type_: Datatype, data: bytes) -> str:
    """One value, as nft writes values of its type."""
    if type_ == INET_PROTO:
        return _PROTOCOL_WORD.get(data[0], str(data[0]))
    if type_ == INET_SERVICE:
        return str(int.from_bytes(data[:2], "big"))
    if type_ == INTEGER:
        return str(int.from_bytes(data[:4], "little"))
    if type_.name == CLASSID.name:
        number = int.from_bytes(data[:4], "little" if type_.host_order else "big")
        return f"{number >> 16:x}:{number & 0xFFFF:x}"
    return unpack(data[: type_.size])


def key_text(key: Key, data: bytes) -> str:
    """A key or the data of a map."""
    parts = []
    for selector in key:
        parts.append(value_text(selector.type, data))
        data = data[(selector.type.size + 3) // 4 * 4 :]
    return " . ".join(parts)


def element_text(set_: Set, head: bytes, tail: bytes) -> str:
    """An element of a set or map."""
    parts = attributes(head)
    first = attributes(parts[nft.NFTA_SET_ELEM_KEY])[nft.NFTA_DATA_VALUE]
    text = key_text(set_.key, first)
    if nft.NFTA_SET_ELEM_KEY_END in parts:
        last = attributes(parts[nft.NFTA_SET_ELEM_KEY_END])[nft.NFTA_DATA_VALUE]
        size = set_.key[-1].type.size
        text = key_text(set_.key[:-1], first) + " . " + range_text(first[-size:], last[-size:])
    if set_.counter:
        text += " counter packets 0 bytes 0"
    if set_.verdicts:
        code = code_in(tail)
        return f"{text} : {_VERDICT_WORD.get(code, code)} {chain_in(tail)}".rstrip()
    if set_.data:
        data = attributes(attributes(tail)[nft.NFTA_SET_ELEM_DATA])[nft.NFTA_DATA_VALUE]
        return f"{text} : {key_text(set_.data, data)}"
    return text


def range_text(first: bytes, last: bytes) -> str:
    """A range of addresses; one that is a prefix is written as such."""
    if first == last:
        return unpack(first)
    low, high = int.from_bytes(first, "big"), int.from_bytes(last, "big")
    hosts = high - low + 1
    if hosts & (hosts - 1) == 0 and low % hosts == 0:
        return f"{unpack(first)}/{8 * len(first) - hosts.bit_length() + 1}"
    return f"{unpack(first)}-{unpack(last)}"


def describe(program: Program, table: Table, node: Node) -> str:
    """The whole table as nft text, as it would be written to an empty kernel.

    Service ports that cannot be programmed are left out, with a comment that says why.
    """
    placed = []
    comments = []
    number = 0
    sources = SourceChange(SourceLists())
    for name in sorted(table.entries):
        entry = table.entries[name]
        try:
            allowed = sources.join(entry)
        except Unfit as error:
            comments.append(f"# {name} is left out: {error}\n")
            continue
        number += 1 if entry.affinity_seconds else 0
        placed.append(place(entry, None, number, allowed))
    _, lists = sources.elements()
    parts = [node_elements(node), lists]
    for each in placed:
        parts += [entry_elements(each, node), without_data(shared_elements(each.entry))]
    wanted = {choice for each in placed for choice in choices(each)}
    chains = [chain_of(choice, node) for choice in in_order(with_parts(wanted))]
    text = render(program, chains, _texts(program, together(parts), node))
    return "".join(comments) + text


def describe_some(program: Program, placed: Iterable[Placed], node: Node) -> str:
    """What the table has for some entries.

    Their elements, as commands that would add them; then the chains of their choices, which
    entries share, as `nft` lists them.
    """
    parts: list[Elements] = []
    wanted: set[Choice] = set()
    for each in placed:
        parts += [entry_elements(each, node), without_data(shared_elements(each.entry))]
        if each.sources:
            ranges = allowed_sources(each.entry)
            parts.append({names.FIREWALL_SOURCES: list_elements(each.sources, ranges)})
        wanted.update(choices(each))
    elements = together(parts)
    family = "ip" if program.family.bits == 32 else "ip6"
    lines = []
    for set_ in program.sets:
        known = replace(set_, counter=False)  # it goes on counting
        at = f"{family} {program.table} {set_.name}"
        texts = _set_texts(known, elements[set_.name])
        lines += [f"add element {at} {{ {text} }}" for text in texts]
    for choice in in_order(with_parts(wanted)):
        lines += (line.removeprefix("\t") for line in chain_lines(chain_of(choice, node)))
    return "".join(f"{line}\n" for line in lines)


def _texts(program: Program, elements: Elements, node: Node) -> Mapping[str, list[str]]:
    texts = {
        set_.name: list(_set_texts(set_, elements[set_.name]))
        for set_ in program.sets
        if set_.name != names.SERVICE_CIDRS
    }
    texts[names.SERVICE_CIDRS] = [range_text(*bounds) for bounds in joined_cidrs(node)]
    return texts


def _set_texts(set_: Set, elements: Mapping[bytes, bytes]) -> Iterable[str]:
    return (element_text(set_, head, tail) for head, tail in sorted(elements.items()))
