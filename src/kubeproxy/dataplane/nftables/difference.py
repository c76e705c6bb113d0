"""A transaction that is not sent -> what it would change, in nft's syntax.

It is read from its messages: what is shown is what would be sent.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from msgspec.structs import replace

from kubeproxy.dataplane.difference import Change, Difference
from kubeproxy.dataplane.nftables import program as names
from kubeproxy.dataplane.nftables.batch import batch_messages
from kubeproxy.dataplane.nftables.choices import counts_in
from kubeproxy.dataplane.nftables.describe import element_text, range_text
from kubeproxy.dataplane.nftables.dump import read_elements
from kubeproxy.dataplane.nftables.elements import Elements, is_end, key_in
from kubeproxy.dataplane.nftables.language import HEADERS, Chain, Program, Set
from kubeproxy.dataplane.nftables.owners import owner_of, owners_of
from kubeproxy.dataplane.nftables.render import rule_text
from kubeproxy.dataplane.nftables.state import Step
from kubeproxy.linux.netlink import nftables as nft
from kubeproxy.linux.netlink.message import decode
from kubeproxy.linux.netlink.nfnetlink import attributes_in

_REMEMBER = "remember-"

_Told = tuple[Change, str, str]
"""What becomes of an element, the element, and the service port that it belongs to."""


def place_of(program: Program) -> str:
    """Where things are, as every command of nft says it: `ip kube-proxy`."""
    return f"{HEADERS[program.family].keyword} {program.table}"


def changes(program: Program, step: Step, before: Elements) -> list[Difference]:
    """What a full sync would do to the chains and elements, which were these before."""
    at = place_of(program)
    found = [each for chain in step.batch.chains for each in _new_chain(at, chain)]
    found += [
        Difference(Change.REMOVE, f"chain {at} {name}")
        for name in sorted(step.idle)
        if not is_choice(name)
    ]
    deleted, added = _elements(program, step, before)
    placed = (each for each in step.placed.values() if each is not None)
    owners = owners_of(placed) if deleted or added else {}
    for set_ in program.sets:
        gone, come = deleted.get(set_.name, {}), added.get(set_.name, {})
        if set_.name in names.RANGE_SETS:
            then = before.get(set_.name, {})
            texts = _range_changes(then, come if set_.name in step.batch.flushed else then)
        else:
            texts = _element_changes(set_, gone, come, owners)
        found += [
            Difference(change, f"element {at} {set_.name} {{ {text} }}", owner)
            for change, text, owner in texts
        ]
    return found


def _new_chain(at: str, chain: Chain) -> Iterator[Difference]:
    yield Difference(Change.ADD, f"chain {at} {chain.name}")
    for rule in chain.rules:
        yield Difference(Change.ADD, f"rule {at} {chain.name} {rule_text(rule)}")


def is_choice(chain: str) -> bool:
    """Whether a chain has the name of a choice, which may have been in use once."""
    return any(counts_in(chain)) or chain.removeprefix("nodeport-").startswith(_REMEMBER)


def _elements(program: Program, step: Step, before: Elements) -> tuple[Elements, Elements]:
    """The elements that go, as they were, and those that come."""
    deleted: Elements = {}
    added: Elements = {}
    for raw in batch_messages(program, step.batch):
        for message in decode(raw):
            if message.type not in {nft.NFT_MSG_DELSETELEM, nft.NFT_MSG_NEWSETELEM}:
                continue
            name = attributes_in(message)[nft.NFTA_SET_ELEM_LIST_SET].rstrip(b"\0").decode()
            elements = read_elements([message])
            if message.type == nft.NFT_MSG_NEWSETELEM:
                added.setdefault(name, {}).update(elements)
            else:
                deleted.setdefault(name, {}).update({at: before[name][at] for at in elements})
    return deleted, added


def _element_changes(
    set_: Set,
    gone: Mapping[bytes, bytes],
    come: Mapping[bytes, bytes],
    owners: Mapping[bytes, str],
) -> Iterator[_Told]:
    """The elements of a set that go and come, by their keys; one with other data does both."""
    known = replace(set_, counter=False)  # its count is not part of the desired state
    for head in sorted({*gone, *come}):
        owner = owner_of(owners, set_, head)
        for change, elements in ((Change.REMOVE, gone), (Change.ADD, come)):
            if head in elements:
                yield change, element_text(known, head, elements[head]), owner


def _range_changes(then: Iterable[bytes], now: Iterable[bytes]) -> Iterator[_Told]:
    """The kernel keeps where ranges begin and where they end; people think in ranges."""
    before, after = _range_texts(then), _range_texts(now)
    yield from ((Change.REMOVE, text, "") for text in sorted(before - after))
    yield from ((Change.ADD, text, "") for text in sorted(after - before))


def _range_texts(heads: Iterable[bytes]) -> set[str]:
    bounds = [_bound(head) for head in heads]
    addresses = sorted({address for address, _ in bounds})
    following = dict(pairwise(addresses))
    return {
        range_text(first, _before(following.get(first), len(first)))
        for first, ends in bounds
        if not ends
    }


def _before(address: bytes | None, size: int) -> bytes:
    """The address before this one; the last of all when there is none."""
    number = 1 << (8 * size) if address is None else int.from_bytes(address)
    return (number - 1).to_bytes(size)


def _bound(head: bytes) -> tuple[bytes, bool]:
    """An address where a range begins or, behind its last address, ends."""
    return key_in(head), is_end(head)
