"""What `iptables-save` says of the nat table -> the chains of services in it."""

import re

import msgspec

from kubeproxy.dataplane.iptables.names import is_service_chain

_CHAIN = re.compile(r"^:(\S+) ", re.MULTILINE)
_FOREIGN_JUMP = re.compile(r"^-A (?!KUBE-).* -[jg] (KUBE-\S+)$", re.MULTILINE)


class Found(msgspec.Struct, frozen=True):
    """Chains of services that exist; `held` are those that rules of others lead to."""

    chains: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()


def found_chains(saved: str) -> Found:
    """The chains of services. One that is held cannot be deleted, only emptied."""
    chains = frozenset(filter(is_service_chain, _CHAIN.findall(saved)))
    return Found(chains, chains.intersection(_FOREIGN_JUMP.findall(saved)))
