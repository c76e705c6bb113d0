"""A transaction as nft commands, for the log: what `nft -f` would be given for it."""

from collections.abc import Iterator

from msgspec.structs import replace

from kubeproxy.dataplane.nftables import dump, names
from kubeproxy.dataplane.nftables.batch import FILLING_ORDER, Batch
from kubeproxy.dataplane.nftables.describe import element_text
from kubeproxy.dataplane.nftables.difference import place_of, range_texts
from kubeproxy.dataplane.nftables.language import Program, Set
from kubeproxy.dataplane.nftables.render import render, rule_text


def transcript(program: Program, batch: Batch, *, replaces: bool, makes: bool) -> str:
    """The commands of a batch, in order; those that `make` the table first.

    One that `replaces` a table of others deletes that before.
    """
    return "\n".join(_commands(program, batch, replaces=replaces, makes=makes))


def _commands(program: Program, batch: Batch, *, replaces: bool, makes: bool) -> Iterator[str]:
    at = place_of(program)
    if replaces:
        yield f"delete table {at}"
    if makes:
        yield render(program, (), {}).rstrip("\n")
    for chain in batch.chains:
        yield f"add chain {at} {chain.name}"
        yield f"flush chain {at} {chain.name}"
    for chain in batch.chains:
        yield from (f"add rule {at} {chain.name} {rule_text(rule)}" for rule in chain.rules)
    sets = {set_.name: replace(set_, counter=False) for set_ in program.sets}
    for name, elements in batch.deleted.items():
        yield from _elements("delete", at, sets[name], elements)
    for name in sorted({*batch.added, *batch.flushed}, key=FILLING_ORDER.index):
        if name in batch.flushed:
            yield f"flush set {at} {name}"
        yield from _elements("add", at, sets[name], batch.added.get(name, []))
    for name, elements in batch.deleted_last.items():
        yield from _elements("delete", at, sets[name], elements)


def _elements(verb: str, at: str, set_: Set, encoded: list[bytes]) -> Iterator[str]:
    found = dump.elements_in(b"".join(encoded))
    if set_.name in names.RANGE_SETS:
        texts = sorted(range_texts(found))
    else:
        known = set_ if verb == "add" else replace(set_, data=(), verdicts=False)
        texts = [element_text(known, head, tail) for head, tail in found.items()]
    yield from (f"{verb} element {at} {set_.name} {{ {text} }}" for text in texts)
