"""The numbers of choices: frontends have one as data, and lead by it to the chain of a choice.

So a frontend that chooses in another way changes a number and no verdict. They are given in turn,
and are the kernel's to know: a restart reads them back.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import count
from struct import Struct

from kubeproxy.dataplane.nftables import names
from kubeproxy.dataplane.nftables.choices import chains_map
from kubeproxy.dataplane.nftables.dump import verdict_in
from kubeproxy.dataplane.nftables.elements import Elements, head, key_in, verdict_tail
from kubeproxy.dataplane.nftables.language import Jump, goto

ChainNumbers = Mapping[str, int]
"""The number of a choice, by the name of its chain."""

_NUMBER = Struct("=I")


def fresh_numbers(chains: Iterable[str], known: ChainNumbers) -> dict[str, int]:
    """Numbers for those of the chains that have none."""
    missing = [chain for chain in chains if chain not in known]
    return dict(zip(missing, count(max(known.values(), default=0) + 1))) if missing else {}


def chain_elements(numbers: ChainNumbers) -> Elements:
    """The elements that lead from numbers to chains."""
    found: Elements = defaultdict(dict)
    for chain, number in numbers.items():
        found[chains_map(chain)][head(_NUMBER.pack(number))] = verdict_tail(goto(chain))
    return found


def numbers_in(kernel: Elements) -> dict[str, int]:
    """The numbers that chains have in the kernel; a chain with several is left out."""
    found: dict[str, list[int]] = defaultdict(list)
    for name in (names.CHOICE_CHAINS, names.REMEMBER_CHAINS):
        for at, tail in kernel.get(name, {}).items():
            code, chain = verdict_in(tail)
            if code == Jump.GOTO.value and chains_map(chain) == name:
                found[chain].append(_NUMBER.unpack(key_in(at))[0])
    return {chain: numbers[0] for chain, numbers in found.items() if len(numbers) == 1}


def by_votes(votes: Mapping[tuple[str, int], int], taken: Iterable[int]) -> dict[str, int]:
    """The number of each chain that most frontends have for it, if no other chain has it."""
    found: dict[str, int] = {}
    used = {0, *taken}
    for (chain, number), _ in Counter(votes).most_common():
        if chain not in found and number not in used:
            found[chain] = number
            used.add(number)
    return found
