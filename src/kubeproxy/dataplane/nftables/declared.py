"""Whether what the kernel's table declares is the program: its sets, its chains and their rules.

One answer for who repairs and for who only looks: the names of what is not as it should be.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kubeproxy.dataplane.nftables.dump import KernelChain, KernelRule, KernelSet, declaration
from kubeproxy.dataplane.nftables.encode import new_set
from kubeproxy.dataplane.nftables.expressions import encode_rule
from kubeproxy.dataplane.nftables.language import Chain, Program

_MESSAGE_HEAD = 20


class Declared(msgspec.Struct, frozen=True):
    """What the kernel's table has beside elements; rules by chain and in order."""

    sets: Mapping[str, KernelSet] = {}
    chains: Mapping[str, KernelChain] = {}
    rules: Mapping[str, Sequence[KernelRule]] = {}


def is_program(found: Declared, program: Program, choices: Iterable[Chain]) -> bool:
    """Whether it is the program, and those of the chains of choices that exist are right."""
    return not (
        wrong_sets(program, found.sets)
        or misplaced_chains(program, found.chains)
        or wrong_chains((*program.chains, *choices), found)
    )


def wrong_sets(program: Program, found: Mapping[str, KernelSet]) -> list[str]:
    """Sets that are missing, declared otherwise, or not the program's."""
    expected = {s.name: declaration(new_set(program, s, 1)[_MESSAGE_HEAD:]) for s in program.sets}
    actual = {name: set_.declaration for name, set_ in found.items()}
    return [name for name in expected | actual if expected.get(name) != actual.get(name)]


def misplaced_chains(program: Program, found: Mapping[str, KernelChain]) -> list[Chain]:
    """Chains of the program that are missing, or attached otherwise to the path of packets."""
    return [chain for chain in program.chains if found.get(chain.name) != _placed(chain)]


def _placed(chain: Chain) -> KernelChain:
    hook = chain.hook
    return KernelChain(chain.name, (hook.number, hook.priority, hook.type) if hook else None)


def wrong_chains(chains: Iterable[Chain], found: Declared) -> list[Chain]:
    """Those of the chains that exist and have other rules."""
    return [
        chain
        for chain in chains
        if chain.name in found.chains
        and [encode_rule(rule) for rule in chain.rules]
        != [rule.expressions for rule in found.rules.get(chain.name, ())]
    ]
