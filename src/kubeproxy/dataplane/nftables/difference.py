"""What a full sync would change -> differences in nft's words; nothing is sent.

Changes of elements are read from the bytes of the transaction: what is shown is what would be
sent. Which service port an element belongs to is known by its key.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec.structs import replace

from kubeproxy.dataplane.difference import Change, Difference, ordered_changes
from kubeproxy.dataplane.nftables import dump, names
from kubeproxy.dataplane.nftables.choices import chains_map, counts_in
from kubeproxy.dataplane.nftables.describe import element_text, range_text
from kubeproxy.dataplane.nftables.elements import (
    Elements,
    frontend_key,
    is_end,
    key_in,
    shared_elements,
)
from kubeproxy.dataplane.nftables.expressions import encode_rule
from kubeproxy.dataplane.nftables.language import DPORT, HEADERS, L4PROTO, Chain, Program, Set
from kubeproxy.dataplane.nftables.placed import Placed
from kubeproxy.dataplane.nftables.render import chain_lines, rule_text
from kubeproxy.dataplane.nftables.state import Step
from kubeproxy.linux.netlink import nftables as nft
from kubeproxy.linux.netlink.message import attributes

_PROTOCOL_AND_PORT = 8
_LIST = b"list"

_Shown = tuple[Change, str, str]
"""What becomes of an element, the element, and the service port that it belongs to."""


def place_of(program: Program) -> str:
    """Where things are, as every command of nft says it: `ip kube-proxy`."""
    return f"{HEADERS[program.family].keyword} {program.table}"


def changes(program: Program, step: Step, before: Elements) -> list[Difference]:
    """What a full sync would do to the chains and elements, which were these before."""
    at = place_of(program)
    found = []
    for chain in step.batch.chains:
        found.append(Difference(Change.ADD, f"chain {at} {chain.name}"))
        rules = (f"rule {at} {chain.name} {rule_text(rule)}" for rule in chain.rules)
        found += [Difference(Change.ADD, rule) for rule in rules]
    foreign = (name for name in sorted(step.idle) if not _is_choice(name))
    found += [Difference(Change.REMOVE, f"chain {at} {name}") for name in foreign]
    deleted, added = step.batch.deleted, step.batch.added
    owners = _owners(filter(None, step.placed.values())) if deleted or added else {}
    for set_ in program.sets:
        come = dump.elements_in(b"".join(added.get(set_.name, ())))
        if set_.name in names.RANGE_SETS:
            then = before.get(set_.name, {})
            texts = _range_changes(then, come if set_.name in step.batch.flushed else then)
        else:
            heads = dump.elements_in(b"".join(deleted.get(set_.name, ())))
            gone = {head: before[set_.name][head] for head in heads}
            texts = _element_changes(set_, gone, come, owners)
        found += [
            Difference(change, f"element {at} {set_.name} {{ {text} }}", owner)
            for change, text, owner in texts
        ]
    return found


def _is_choice(chain: str) -> bool:
    """Whether a chain has the name of a choice, which an earlier sync may have made."""
    return any(counts_in(chain)) or chains_map(chain) == names.REMEMBER_CHAINS


def _element_changes(
    set_: Set,
    gone: Mapping[bytes, bytes],
    come: Mapping[bytes, bytes],
    owners: Mapping[bytes, str],
) -> Iterator[_Shown]:
    """The elements of a set that go and come, by their keys; one with other data does both."""
    known = replace(set_, counter=False)  # what it has counted is no part of the desired state
    for head in sorted({*gone, *come}):
        owner = _owner(owners, set_, head)
        for change, elements in ((Change.REMOVE, gone), (Change.ADD, come)):
            if head in elements:
                yield change, element_text(known, head, elements[head]), owner


def _owners(placed: Iterable[Placed]) -> dict[bytes, str]:
    """The names of service ports by the start of their keys; of services by their cluster IPs.

    A list of allowed sources belongs to the first that uses it. Keys of different kinds differ in
    size or have a prefix, so that one dictionary is enough.
    """
    found: dict[bytes, str] = {}
    for each in placed:
        entry = each.entry
        if each.sources:
            found.setdefault(_LIST + each.sources.to_bytes(4, "big"), str(entry.name))
        for frontend in entry.frontends:
            found[frontend_key(frontend, entry.protocol)] = str(entry.name)
        for set_, head in shared_elements(entry):
            owner = entry.name.owner if set_ == names.CLUSTER_IPS else entry.name
            found[key_in(head)] = str(owner)
    return found


def _owner(owners: Mapping[bytes, str], set_: Set, head: bytes) -> str:
    """The service port that an element belongs to; "" when that is unknown."""
    if set_.name in {names.NODEPORT_ADDRESSES, names.CHOICE_CHAINS, names.REMEMBER_CHAINS}:
        return ""
    key = key_in(head)
    if set_.name == names.FIREWALL_SOURCES:
        return owners.get(_LIST + key[:4], "")
    if set_.key[:2] == (L4PROTO, DPORT):
        key = key[:_PROTOCOL_AND_PORT]
    elif set_.key[1:3] == (L4PROTO, DPORT):
        key = key[: set_.key[0].type.size + _PROTOCOL_AND_PORT]
    return owners.get(key, "")


def _range_changes(then: Iterable[bytes], now: Iterable[bytes]) -> Iterator[_Shown]:
    """The kernel keeps where ranges begin and where they end; people think in ranges."""
    before, after = range_texts(then), range_texts(now)
    yield from ((Change.REMOVE, text, "") for text in sorted(before - after))
    yield from ((Change.ADD, text, "") for text in sorted(after - before))


def range_texts(heads: Iterable[bytes]) -> set[str]:
    """The ranges between the bounds: the end is behind the last address, or there is none."""
    bounds = [(key_in(head), is_end(head)) for head in heads]
    following = dict(pairwise(sorted({address for address, _ in bounds})))
    found = set()
    for first, ends in bounds:
        if not ends:
            size = len(first)
            after = int.from_bytes(following[first]) if first in following else 1 << 8 * size
            found.add(range_text(first, (after - 1).to_bytes(size)))
    return found


def altered(
    program: Program,
    chains: Sequence[Chain],
    found: dump.Declared,
    listed: Callable[[], Mapping[int, str]],
) -> list[Difference]:
    """Why the kernel's table is not the program.

    `chains` are those of the program and of the choices that are needed; `listed` returns the
    texts of rules by their handles, as far as a tool can list them.
    """
    at = place_of(program)
    ours = {encode_rule(rule): rule_text(rule) for chain in chains for rule in chain.rules}

    def text_of(rule: dump.KernelRule) -> str:
        text = ours.get(rule.expressions) or listed().get(rule.handle)
        return f"{text or _expressions(rule)} # handle {rule.handle}"

    differences = [*_sets(at, program, found), *_chains(at, program, chains, found)]
    for chain in dump.wrong_chains(chains, found):
        actual = found.rules.get(chain.name, ())
        before = [rule.expressions for rule in actual]
        after = [encode_rule(rule) for rule in chain.rules]
        for change, place in ordered_changes(before, after):
            gone = change is Change.REMOVE
            text = text_of(actual[place]) if gone else rule_text(chain.rules[place])
            differences.append(Difference(change, f"rule {at} {chain.name} {text}"))
    return differences


def _sets(at: str, program: Program, found: dump.Declared) -> Iterator[Difference]:
    ours = {set_.name: set_ for set_ in program.sets}
    for name in dump.wrong_sets(program, found.sets):
        if name not in ours:
            yield Difference(Change.REMOVE, f"set {at} {name}")
            continue
        named = f"{'map' if ours[name].is_map else 'set'} {at} {name}"
        if name in found.sets:
            yield Difference(Change.REPLACE, named, reason="it is declared otherwise")
        else:
            yield Difference(Change.ADD, named)


def _chains(
    at: str, program: Program, chains: Iterable[Chain], found: dump.Declared
) -> Iterator[Difference]:
    for chain in dump.misplaced_chains(program, found.chains):
        named = f"chain {at} {chain.name}"
        if chain.name not in found.chains:
            yield Difference(Change.ADD, named)
        elif chain.hook is None:
            yield Difference(Change.REPLACE, named, reason="it should have no hook")
        else:
            declaration = chain_lines(chain)[1].strip()
            yield Difference(Change.REPLACE, named, reason=f"it should be: {declaration}")
    known = {chain.name for chain in chains}
    for name in found.chains:
        if name not in known and not _is_choice(name):
            yield Difference(Change.REMOVE, f"chain {at} {name}")


def _expressions(rule: dump.KernelRule) -> str:
    """The kinds of the expressions of a rule whose text is unknown."""
    parts = (attributes(part)[nft.NFTA_EXPR_NAME] for _, part in dump.listed(rule.expressions))
    return f"({', '.join(map(dump.name_in, parts))})"
