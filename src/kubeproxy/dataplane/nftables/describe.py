"""Elements as bytes -> elements as nft text, by the declaration of their set."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from kubeproxy.base.inet import Protocol, unpack
from kubeproxy.dataplane.nftables import language as lang
from kubeproxy.dataplane.nftables import names
from kubeproxy.dataplane.nftables.chainnumbers import (
    ChainNumbers,
    chain_elements,
    fresh_numbers,
)
from kubeproxy.dataplane.nftables.choices import Choice, chain_of, with_parts
from kubeproxy.dataplane.nftables.dump import verdict_in
from kubeproxy.dataplane.nftables.elements import (
    Elements,
    entry_elements,
    joined_cidrs,
    node_elements,
    shared_elements,
    together,
    without_data,
)
from kubeproxy.dataplane.nftables.placed import Placed, choices
from kubeproxy.dataplane.nftables.places import place
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
from kubeproxy.table.node import NodeView

# Elements of others may have protocols and verdicts that are not used here, or are unknown.
_PROTOCOL_WORD = {protocol.value: protocol.name.lower() for protocol in Protocol}
_VERDICT_WORD = {0: "drop", 1: "accept", -1: "continue", -3: "jump", -4: "goto", -5: "return"}


def value_text(type_: lang.Datatype, data: bytes) -> str:
    """One value, as nft writes values of its type."""
    if type_ == lang.INET_PROTO:
        return _PROTOCOL_WORD.get(data[0], str(data[0]))
    if type_ == lang.INET_SERVICE:
        return str(int.from_bytes(data[:2], "big"))
    if type_ == lang.INTEGER:
        return str(int.from_bytes(data[:4], "little"))
    if type_.name == lang.CLASSID.name:
        number = int.from_bytes(data[:4], "little" if type_.host_order else "big")
        return f"{number >> 16:x}:{number & 0xFFFF:x}"
    return unpack(data[: type_.size])


def key_text(key: lang.Key, data: bytes) -> str:
    """A key or the data of a map."""
    parts = []
    for selector in key:
        parts.append(value_text(selector.type, data))
        data = data[(selector.type.size + 3) // 4 * 4 :]
    return " . ".join(parts)


def element_text(set_: lang.Set, head: bytes, tail: bytes) -> str:
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
        code, chain = verdict_in(tail)
        return f"{text} : {_VERDICT_WORD.get(code, code)} {chain}".rstrip()
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


def describe(program: lang.Program, table: Table, node: NodeView) -> str:
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
    numbers = fresh_numbers(sorted({c.chain for each in placed for c in choices(each)}), {})
    elements, chains = _content(placed, node, numbers)
    elements = together([elements, node_elements(node)])
    texts = {set_.name: _texts(set_, elements[set_.name]) for set_ in program.sets}
    texts[names.SERVICE_CIDRS] = [range_text(*bounds) for bounds in joined_cidrs(node)]
    return "".join(comments) + render(program, chains, texts)


def describe_some(
    program: lang.Program, placed: Iterable[Placed], node: NodeView, numbers: ChainNumbers
) -> str:
    """What the table has for some entries; `numbers` are those of the chains of choices.

    Their elements, as commands that would add them; then the chains of their choices, which
    entries share, as `nft` lists them.
    """
    elements, chains = _content(placed, node, numbers)
    table = f"{lang.HEADERS[program.family].keyword} {program.table}"
    lines = []
    for set_ in program.sets:
        texts = _texts(replace(set_, counter=False), elements[set_.name])  # it goes on counting
        lines += [f"add element {table} {set_.name} {{ {text} }}" for text in texts]
    for chain in chains:
        lines += (line.removeprefix("\t") for line in chain_lines(chain))
    return "".join(f"{line}\n" for line in lines)


def _content(
    placed: Iterable[Placed], node: NodeView, numbers: ChainNumbers
) -> tuple[Elements, list[lang.Chain]]:
    """The elements of entries, and the chains of their choices."""
    parts: list[Elements] = []
    wanted: set[Choice] = set()
    for each in placed:
        parts += [entry_elements(each, node, numbers), without_data(shared_elements(each.entry))]
        if each.sources:
            ranges = allowed_sources(each.entry)
            parts.append({names.FIREWALL_SOURCES: list_elements(each.sources, ranges)})
        wanted.update(choices(each))
    parts.append(chain_elements({each.chain: numbers[each.chain] for each in wanted}))
    return together(parts), [chain_of(choice, node) for choice in with_parts(wanted)]


def _texts(set_: lang.Set, elements: Mapping[bytes, bytes]) -> list[str]:
    return [element_text(set_, head, tail) for head, tail in sorted(elements.items())]
