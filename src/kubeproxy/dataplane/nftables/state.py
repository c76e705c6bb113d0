"""What is programmed, and the transactions from one state to the next.

`Programmed` keeps no elements: those of an entry follow from the entry, its places and the numbers
that were given. Only elements that entries share are counted.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from struct import Struct
from typing import TypeVar

import msgspec

from kubeproxy.dataplane.nftables import gone as gone_pods
from kubeproxy.dataplane.nftables import names
from kubeproxy.dataplane.nftables.batch import Batch
from kubeproxy.dataplane.nftables.chainnumbers import (
    ChainNumbers,
    by_votes,
    chain_elements,
    fresh_numbers,
    numbers_in,
)
from kubeproxy.dataplane.nftables.choices import Choice, chain_of, uses, with_parts
from kubeproxy.dataplane.nftables.elements import (
    ElementKey,
    Elements,
    entry_elements,
    frontend_key,
    head,
    list_head,
    list_heads,
    list_tails,
    node_elements,
    shared_elements,
    together,
    without_data,
)
from kubeproxy.dataplane.nftables.gone import Departure, Departures, departure, left_meanwhile
from kubeproxy.dataplane.nftables.language import Program
from kubeproxy.dataplane.nftables.placed import Placed, Slots, choices, ways
from kubeproxy.dataplane.nftables.places import Places, Replaced, place
from kubeproxy.dataplane.nftables.sources import SourceChange, SourceLists
from kubeproxy.dataplane.nftables.work import Work
from kubeproxy.table.diff import ListChanges, list_changes
from kubeproxy.table.entries import Backend, Entry, FrontendKind, ServicePortName
from kubeproxy.table.node import NodeView

_NUMBER = Struct("=I")

T = TypeVar("T")

NONE_KNOWN: Mapping[ServicePortName, ListChanges] = {}


class Programmed(msgspec.Struct):
    """The kernel's state, as far as it cannot be derived.

    `used` counts the frontends that are led to each chain of a choice, through others or at once.
    `lingering` are further chains that the kernel has; their rules are not known.
    """

    program: Program
    node: NodeView
    placed: dict[ServicePortName, Placed] = {}
    shared: Counter[ElementKey] = msgspec.field(default_factory=Counter)
    sources: SourceLists = msgspec.field(default_factory=SourceLists)
    chains: set[str] = set()
    numbers: ChainNumbers = {}
    last_number: int = 0
    departures: Departures = msgspec.field(default_factory=Departures)
    places: Places = msgspec.field(default_factory=Places)
    used: Counter[str] = msgspec.field(default_factory=Counter)
    lingering: set[str] = set()


class Step(msgspec.Struct):
    """A transaction, and how it changes the state when it succeeds.

    `idle` are chains of unused choices: they leave the state, whether or not they are deleted.
    Their numbers stay in it, as they stay in the kernel.
    """

    batch: Batch
    placed: dict[ServicePortName, Placed | None]
    shared: Counter[ElementKey]
    used: Counter[str]
    sources: SourceChange
    numbers: ChainNumbers
    last_number: int
    departure: Departure
    replaced: Sequence[Replaced] = ()
    lost_numbers: bool = False
    idle: frozenset[str] = frozenset()


def alone(program: Program, node: NodeView) -> Callable[[Entry], None]:
    """A function that encodes an entry alone, to find out whether that can be done.

    Too many source ranges are too many for all ports of a Service: they are checked once.
    """
    sources = SourceChange(SourceLists())

    def write(entry: Entry) -> None:
        sources.join(entry)
        step(Programmed(program, node), (), [entry], node)

    return write


def _work(
    state: Programmed,
    gone: Iterable[Entry],
    wanted: Iterable[Entry],
    lists: Mapping[ServicePortName, ListChanges],
) -> Work:
    """What has to be done with these entries."""
    work = Work(SourceChange(state.sources), state.last_number)
    known_lists: dict[ServicePortName, ListChanges] = {}
    for entry in gone:
        known = state.placed.get(entry.name)
        if known is None:
            continue
        work.removed[entry.name] = known
        work.sources.leave(known.sources)
        same = known.entry.cluster is entry.cluster and known.entry.local is entry.local
        if same and entry.name in lists:
            known_lists[entry.name] = lists[entry.name]
    for entry in wanted:
        known = work.removed.pop(entry.name, None)
        own = known.number if known else 0
        if entry.affinity_seconds and not own:
            own = work.number = work.number + 1
        allowed = work.sources.join(entry, known.sources if known else 0)
        if known is None:
            work.added.append(place(entry, None, own, allowed))
        else:
            changes = known_lists.get(entry.name) or list_changes(known.entry, entry)
            replaced = state.places.replace(known, entry, changes, (own, allowed))
            work.replaced.append(replaced)
    return work


def step(
    state: Programmed,
    gone: Iterable[Entry],
    wanted: Iterable[Entry],
    node: NodeView,
    lists: Mapping[ServicePortName, ListChanges] = NONE_KNOWN,
) -> Step:
    """The transaction that removes some entries and adds others (an entry may be in both).

    `lists` says how long lists of those in both differ, where that is known.
    """
    work = _work(state, gone, wanted, lists)
    shared = work.shared()
    batch = Batch()
    given = work.after()
    chosen = _count(given)
    _add_chains(batch, chosen, state.chains, node)
    used = uses(chosen)
    used.subtract(uses(_count(work.before())))
    fresh = fresh_numbers(_names(chosen), state.numbers)
    numbers = {**state.numbers, **fresh} if fresh else state.numbers
    old, new = work.elements(state.node, node, numbers)
    new.append(chain_elements(fresh))
    held = {each: state.shared[each] for each in shared}
    lists_before, lists_after = work.sources.elements()
    old += [node_elements(state.node), without_data(each for each in held if held[each] > 0)]
    new += [node_elements(node), without_data(e for e in held if held[e] + shared[e] > 0)]
    before, after = together([*old, lists_before]), together([*new, lists_after])
    for name in before | after:
        batch.change(name, before[name], after[name])
    leaving = departure(state.departures, _pods(work.before()), _pods(given))
    gone_pods.write(batch, state.departures, leaving, gone_pods.any_gone(state.departures))
    return Step(
        batch,
        work.placed(),
        shared,
        used,
        work.sources,
        numbers,
        work.number,
        leaving,
        work.replaced,
        lost_numbers=work.lost_numbers,
    )


def _pods(placed: Iterable[Placed]) -> dict[ServicePortName, Slots]:
    return {each.entry.name: each.entry.pods for each in placed if each.entry.pods}


def _count(placed: Iterable[Placed]) -> Counter[Choice]:
    """The choices of entries, and how many frontends choose so."""
    return Counter(choice for each in placed for choice in choices(each))


def _names(wanted: Iterable[Choice]) -> list[str]:
    return sorted(choice.chain for choice in wanted)


def _add_chains(
    batch: Batch, wanted: Iterable[Choice], known: set[str], node: NodeView
) -> set[str]:
    """Add the chains that are needed and not known; the names of all that are needed."""
    needed = with_parts(wanted)
    batch.chains = [chain_of(choice, node) for choice in needed if choice.chain not in known]
    return {choice.chain for choice in needed}


def commit(state: Programmed, done: Step, node: NodeView) -> None:
    """The transaction succeeded: this is the state now."""
    state.node = node
    done.sources.commit()
    state.last_number = done.last_number
    state.numbers = done.numbers
    gone_pods.commit(state.departures, done.departure)
    made = {chain.name for chain in done.batch.chains}
    state.chains.update(made)
    state.chains.difference_update(done.idle)
    state.lingering.update(done.idle)
    state.lingering.difference_update(made)
    _add(state.used, done.used)
    for change in done.replaced:
        state.places.commit(change)
    for name, placed in done.placed.items():
        if placed is None:
            state.placed.pop(name, None)
            state.places.forget(name)
        else:
            state.placed[name] = placed
    _add(state.shared, done.shared)


def _add(counted: Counter[T], difference: Mapping[T, int]) -> None:
    """Count further; what is not there any more is no longer counted."""
    for each, more in difference.items():
        counted[each] += more
        if counted[each] <= 0:
            del counted[each]


# --- from what the kernel says ----------------------------------------------------------------


def adopt(entry: Entry, kernel: Elements) -> Placed:
    """An entry with the places and the number that it has in the kernel, if any."""
    if not kernel:
        return Placed(entry, (), ())
    cluster: Slots = ()
    local: Slots = ()
    number = sources = 0
    backends = (*entry.cluster, *entry.local)
    known = dict(zip(list_tails(backends), backends, strict=True))
    for frontend in entry.frontends:
        key = frontend_key(frontend, entry.protocol)
        node_port = frontend.kind is FrontendKind.NODE_PORT
        if _known(cluster) < len(entry.cluster):
            lists = kernel.get(names.LISTS[node_port, False], {})
            cluster = max(cluster, _list(lists, key, known, len(entry.cluster)), key=_known)
        if _known(local) < len(entry.local):
            lists = kernel.get(names.LISTS[node_port, True], {})
            local = max(local, _list(lists, key, known, len(entry.local)), key=_known)
        number = number or _number(kernel, names.NUMBERS[node_port], key)
        sources = sources or _number(kernel, names.FIREWALL_IPS, key)
    return Placed(entry, cluster, local, number, sources)


_UNKNOWN = Backend("", 0)


def _known(slots: Slots) -> int:
    return len({*slots} - {_UNKNOWN})


def _list(
    elements: Mapping[bytes, bytes], key: bytes, known: Mapping[bytes, Backend], length: int
) -> Slots:
    """The backends of one list in the kernel, in their places; some may be empty or unknown."""
    if not elements:
        return ()
    tails = list(map(elements.get, list_heads(key, length)))
    while (further := elements.get(list_head(key, len(tails)))) is not None:
        tails.append(further)
    return tuple([_UNKNOWN if tail is None else known.get(tail, _UNKNOWN) for tail in tails])


def _number(kernel: Elements, name: str, key: bytes) -> int:
    tail = kernel.get(name, {}).get(head(key))
    return 0 if tail is None else int(_NUMBER.unpack(tail[8:12])[0])


def largest_number(kernel: Elements, *maps: str) -> int:
    """The largest number that these maps have in the kernel."""
    numbers = (
        _NUMBER.unpack(tail[8:12])[0] for name in maps for tail in kernel.get(name, {}).values()
    )
    return max(numbers, default=0)


def reconcile(
    state: Programmed, entries: Iterable[Entry], kernel: Elements, node: NodeView
) -> Step:
    """The transaction that makes the kernel's elements those of the entries.

    `state` has the program and the chains that the kernel has, and the last number that was given,
    of which pins may be left; nothing else. The kernel's elements are consumed: those that are
    left at the end belong to no entry and are removed.
    """
    batch = Batch()
    placed: dict[ServicePortName, Placed] = {}
    shared: Counter[ElementKey] = Counter()
    number = max(state.last_number, largest_number(kernel, *names.NUMBERS.values()))
    sources = SourceChange(state.sources, largest_number(kernel, names.FIREWALL_IPS))
    taken: set[int] = set()
    entries = list(entries)
    meanwhile = list(left_meanwhile(entries, kernel))
    for entry in entries:
        known = adopt(entry, kernel)
        # A frontend that moved from one service to another still has the number of the first.
        own = 0 if known.number in taken else known.number
        if entry.affinity_seconds and not own:
            own = number = number + 1
        taken.add(own)
        placed[entry.name] = place(entry, known, own, sources.join(entry, known.sources))
        shared.update(shared_elements(entry))
    wanted = _count(placed.values())
    needed = _add_chains(batch, wanted, state.chains, node)
    fixed = {chain.name for chain in state.program.chains}
    # The rules of idle chains were not compared: a chain that is needed later is written again.
    idle = frozenset(state.chains - needed - fixed)
    numbers = _chain_numbers(wanted, state.chains - fixed, placed.values(), kernel)
    state.departures = gone_pods.in_kernel(kernel.pop(names.GONE, {}))
    leaving = departure(state.departures, {}, _pods(placed.values()), meanwhile)
    gone_pods.write(batch, state.departures, leaving, kernel.pop(names.GONE_ANY, {}))
    for each in placed.values():
        _take(batch, entry_elements(each, node, numbers), kernel)
    _, lists = sources.elements()
    others = [node_elements(node), without_data(shared), lists, chain_elements(numbers)]
    _take(batch, together(others), kernel)
    for name, left in kernel.items():
        batch.change(name, left, {})
    # Pins may be left of removed services, whose numbers may be given again.
    after: dict[ServicePortName, Placed | None] = {**placed}
    return Step(
        batch,
        after,
        shared,
        uses(wanted),
        sources,
        numbers,
        number,
        leaving,
        lost_numbers=True,
        idle=idle,
    )


def _chain_numbers(
    wanted: Iterable[Choice], chains: Collection[str], placed: Iterable[Placed], kernel: Elements
) -> dict[str, int]:
    """The numbers of the choices that are wanted, as far as possible those of the kernel.

    Other chains that exist keep theirs. Where other processes have changed what leads to a chain,
    the frontends still say what its number was.
    """
    needed = _names(wanted)
    numbers = {chain: number for chain, number in numbers_in(kernel).items() if chain in chains}
    if any(kernel.values()) and not numbers.keys() >= {*needed}:
        votes = Counter(
            (choice.chain, _number(kernel, name, frontend_key(frontend, each.entry.protocol)))
            for each in placed
            for name, frontend, choice in ways(each)
            if choice.chain not in numbers
        )
        numbers |= by_votes(votes, numbers.values())
    return {**numbers, **fresh_numbers(needed, numbers)}


def _take(batch: Batch, wanted: Elements, kernel: Elements) -> None:
    for name, elements in wanted.items():
        if name in names.RANGE_SETS:
            batch.change(name, kernel.pop(name, {}), elements)
            continue
        left = kernel.get(name, {})
        batch.change(name, {at: left.pop(at) for at in elements if at in left}, elements)
