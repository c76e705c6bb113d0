"""Which kind of iptables the node uses: an image brings both, and has to use the same.

`KUBE_PROXY_IPTABLES=node`, which our image sets, asks for that. Rules of the two kinds do not see
each other: those of the kubelet and of a CNI plugin are on one side.
"""

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

from kubeproxy.base.errors import KernelError, OperatorError
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.xtables_chains import OF_THE_KUBELET, ChainName
from kubeproxy.dataplane.xtables_guard import nft_chains
from kubeproxy.linux.legacytables import legacy_chains
from kubeproxy.linux.tools import RuleKind
from kubeproxy.linux.xtables import KIND

_AS_THE_NODE = "node"


def kind_of(chains: Mapping[RuleKind, Collection[ChainName]]) -> tuple[RuleKind, str]:
    """The kind that a node with these chains uses, and how that is known.

    Built-in chains do not count: to list a table is enough to have them.
    """
    for kind in (RuleKind.NFT, RuleKind.LEGACY):
        hints = sorted({each.name for each in chains[kind] if each.name in OF_THE_KUBELET})
        if hints:
            return kind, f"the kubelet has {hints[0]} there"
    counts = {kind: len(chains[kind]) for kind in RuleKind}
    if counts[RuleKind.LEGACY] > counts[RuleKind.NFT]:
        return RuleKind.LEGACY, "most chains are there"
    why = (
        "most chains are there" if counts[RuleKind.NFT] else "no chains are there that would tell"
    )
    return RuleKind.NFT, why


def use_kind_of_node() -> str:
    """Settle which kind of programs is used, for this process and those that it starts.

    Says which kind was chosen and why; "" where there was nothing to choose.
    """
    wanted = os.environ.get(KIND, "")
    kinds = [kind.value for kind in RuleKind]
    if wanted != _AS_THE_NODE:
        if wanted and wanted not in kinds:
            raise OperatorError(
                f"{KIND}={wanted}: want {', '.join(kinds)} or {_AS_THE_NODE}, or leave it unset to"
                " use the programs called iptables"
            )
        return ""
    kind, why = kind_of(
        {RuleKind.NFT: _chains(nft_chains), RuleKind.LEGACY: _chains(legacy_chains)}
    )
    os.environ[KIND] = kind.value
    return f"{kind.value}: {why}"


def _chains(read: Callable[[Family], Iterable[tuple[str, str]]]) -> list[ChainName]:
    """The chains of one kind that are not built in."""
    found = (ChainName(*each) for family in Family for each in _read(partial(read, family)))
    return [each for each in found if not (each.name.isupper() and each.name.isalpha())]


def _read(chains: Callable[[], Iterable[tuple[str, str]]]) -> Iterable[tuple[str, str]]:
    """What there is of one kind; nothing where the kernel does not have it."""
    try:
        return chains()
    except KernelError:
        return ()
