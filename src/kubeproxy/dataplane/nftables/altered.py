"""What was altered in the program -> differences in nft's syntax."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from kubeproxy.dataplane.difference import Change, Difference, ordered_changes
from kubeproxy.dataplane.nftables.declared import (
    Declared,
    misplaced_chains,
    wrong_chains,
    wrong_sets,
)
from kubeproxy.dataplane.nftables.difference import is_choice, place_of
from kubeproxy.dataplane.nftables.dump import KernelRule
from kubeproxy.dataplane.nftables.expressions import encode_rule
from kubeproxy.dataplane.nftables.language import Chain, Program, Set
from kubeproxy.dataplane.nftables.render import chain_lines, rule_text
from kubeproxy.linux.netlink.message import ATTRIBUTE, attributes
from kubeproxy.linux.netlink.nftables import NFTA_EXPR_NAME


def altered(
    program: Program,
    chains: Sequence[Chain],
    found: Declared,
    listed: Callable[[], Mapping[int, str]],
) -> list[Difference]:
    """Why the kernel's table is not the program.

    `chains` are those of the program and of the choices that are needed; `listed` returns the
    texts of rules by their handles, as far as nft can list them.
    """
    at = place_of(program)
    ours = {encode_rule(rule): rule_text(rule) for chain in chains for rule in chain.rules}

    def text_of(rule: KernelRule) -> str:
        text = ours.get(rule.expressions) or listed().get(rule.handle)
        return f"{text or _expressions(rule)} # handle {rule.handle}"

    differences = [*_sets(at, program, found), *_chains(at, program, chains, found)]
    for chain in wrong_chains(chains, found):
        for change, text in _rules(chain, found.rules.get(chain.name, ()), text_of):
            differences.append(Difference(change, f"rule {at} {chain.name} {text}"))
    return differences


def _sets(at: str, program: Program, found: Declared) -> Iterator[Difference]:
    ours = {set_.name: set_ for set_ in program.sets}
    for name in wrong_sets(program, found.sets):
        if name not in ours:
            yield Difference(Change.REMOVE, f"set {at} {name}")
            continue
        named = f"{_keyword(ours[name])} {at} {name}"
        if name in found.sets:
            yield Difference(Change.REPLACE, named, reason="it is declared otherwise")
        else:
            yield Difference(Change.ADD, named)


def _keyword(set_: Set) -> str:
    return "map" if set_.data or set_.verdicts else "set"


def _chains(
    at: str, program: Program, chains: Iterable[Chain], found: Declared
) -> Iterator[Difference]:
    for chain in misplaced_chains(program, found.chains):
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
        if name not in known and not is_choice(name):
            yield Difference(Change.REMOVE, f"chain {at} {name}")


def _rules(
    chain: Chain, found: Sequence[KernelRule], text_of: Callable[[KernelRule], str]
) -> Iterator[tuple[Change, str]]:
    """The rules of a chain that go and come, in the order in which they stand there."""
    before = [rule.expressions for rule in found]
    after = [encode_rule(rule) for rule in chain.rules]
    for change, place in ordered_changes(before, after):
        gone = change is Change.REMOVE
        yield change, text_of(found[place]) if gone else rule_text(chain.rules[place])


def _expressions(rule: KernelRule) -> str:
    """The kinds of the expressions of a rule that has no text."""
    words = []
    data = rule.expressions
    while data:
        length, _ = ATTRIBUTE.unpack_from(data)
        name = attributes(data[ATTRIBUTE.size : length])[NFTA_EXPR_NAME]
        words.append(name.rstrip(b"\0").decode())
        data = data[(length + 3) & ~3 :]
    return f"({', '.join(words)})"
