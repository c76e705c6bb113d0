"""The rules of all services and of the node -> the text for `iptables-restore --noflush`.

A chain that is named is emptied or created; all others stay as they are. So a sync names the
top-level chains, which it writes in full, and the chains of the services that changed.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from kubeproxy.dataplane.iptables.rules import TopRules
from kubeproxy.dataplane.iptables.setup import (
    INVALID_COUNTER,
    Options,
    node_port_destinations,
    serves_localhost,
)
from kubeproxy.dataplane.xtables_text import BuiltInJump
from kubeproxy.table.node import NodeView

_FILTER_CHAINS = (
    "KUBE-SERVICES",
    "KUBE-EXTERNAL-SERVICES",
    "KUBE-FORWARD",
    "KUBE-NODEPORTS",
    "KUBE-PROXY-FIREWALL",
)
_NAT_CHAINS = ("KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-POSTROUTING", "KUBE-MARK-MASQ")

_EXTERNAL = "kubernetes externally-visible service portals"
_PORTALS = "kubernetes service portals"
_BALANCER = "kubernetes load balancer firewall"

# Each is inserted in front of those before it: a packet meets the last one first.
JUMPS = (
    BuiltInJump("filter", "INPUT", "KUBE-EXTERNAL-SERVICES", _EXTERNAL, new_only=True),
    BuiltInJump("filter", "FORWARD", "KUBE-EXTERNAL-SERVICES", _EXTERNAL, new_only=True),
    BuiltInJump("filter", "INPUT", "KUBE-NODEPORTS", "kubernetes health check service ports"),
    BuiltInJump("filter", "FORWARD", "KUBE-SERVICES", _PORTALS, new_only=True),
    BuiltInJump("filter", "OUTPUT", "KUBE-SERVICES", _PORTALS, new_only=True),
    BuiltInJump("filter", "FORWARD", "KUBE-FORWARD", "kubernetes forwarding rules"),
    BuiltInJump("filter", "INPUT", "KUBE-PROXY-FIREWALL", _BALANCER, new_only=True),
    BuiltInJump("filter", "OUTPUT", "KUBE-PROXY-FIREWALL", _BALANCER, new_only=True),
    BuiltInJump("filter", "FORWARD", "KUBE-PROXY-FIREWALL", _BALANCER, new_only=True),
    BuiltInJump("nat", "OUTPUT", "KUBE-SERVICES", _PORTALS),
    BuiltInJump("nat", "PREROUTING", "KUBE-SERVICES", _PORTALS),
    BuiltInJump("nat", "POSTROUTING", "KUBE-POSTROUTING", "kubernetes postrouting rules"),
    BuiltInJump("filter", "INPUT", "KUBE-FIREWALL"),
    BuiltInJump("filter", "OUTPUT", "KUBE-FIREWALL"),
)


class Written(msgspec.Struct, frozen=True):
    """The services' part of a sync: rules of all of them, chains of those that changed.

    Of the chains that are no longer used, some are deleted, and others can only be emptied.
    `is_news` says that the kernel does not have all of it yet.
    """

    tops: Iterable[TopRules]
    chains: Mapping[str, str]
    deleted: Collection[str] = ()
    emptied: Collection[str] = ()
    is_news: bool = True


NO_SERVICES = Written((), {})


def restore_text(node: NodeView, options: Options, written: Written) -> str:
    """What a sync writes: the filter table, then the nat table."""
    tops = tuple(written.tops)
    return "".join(
        (
            "*filter\n",
            *_chain_lines(_FILTER_CHAINS),
            *_martian_guard(node),
            *(top.filter for top in tops),
            *_forward_rules(options),
            "COMMIT\n*nat\n",
            *_chain_lines(_NAT_CHAINS),
            *_chain_lines(written.chains),
            *_chain_lines(sorted({*written.deleted, *written.emptied})),
            *_masquerade_rules(options.mark),
            *(top.nat for top in tops),
            *written.chains.values(),
            *(f"-X {chain}\n" for chain in sorted(written.deleted)),
            *_node_port_rules(node),
            "COMMIT\n",
        )
    )


def _chain_lines(chains: Iterable[str]) -> Iterable[str]:
    return (f":{chain} - [0:0]\n" for chain in chains)


def _martian_guard(node: NodeView) -> tuple[str, ...]:
    """Keep others from 127.0.0.0/8, which route_localnet opens. The kubelet writes the same."""
    if not serves_localhost(node):
        return ()
    return (
        ":KUBE-FIREWALL - [0:0]\n",
        (
            '-A KUBE-FIREWALL -m comment --comment "block incoming localnet connections"'
            " -d 127.0.0.0/8 ! -s 127.0.0.0/8"
            " -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP\n"
        ),
    )


def _forward_rules(options: Options) -> tuple[str, ...]:
    mark = options.mark
    invalid = "-A KUBE-FORWARD -m conntrack --ctstate INVALID"
    if INVALID_COUNTER in options.counters:
        invalid += f" -m nfacct --nfacct-name {INVALID_COUNTER}"
    return (
        *((f"{invalid} -j DROP\n",) if options.drops_invalid else ()),
        (
            f'-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules"'
            f" -m mark --mark {mark}/{mark} -j ACCEPT\n"
        ),
        (
            '-A KUBE-FORWARD -m comment --comment "kubernetes forwarding conntrack rule"'
            " -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n"
        ),
    )


def _masquerade_rules(mark: str) -> tuple[str, ...]:
    return (
        f"-A KUBE-POSTROUTING -m mark ! --mark {mark}/{mark} -j RETURN\n",
        f"-A KUBE-POSTROUTING -j MARK --xor-mark {mark}\n",
        (
            "-A KUBE-POSTROUTING -m comment"
            ' --comment "kubernetes service traffic requiring SNAT"'
            " -j MASQUERADE --random-fully\n"
        ),
        f"-A KUBE-MARK-MASQ -j MARK --or-mark {mark}\n",
    )


def _node_port_rules(node: NodeView) -> Iterable[str]:
    return (
        f'-A KUBE-SERVICES -m comment --comment "kubernetes service nodeports; NOTE: this must'
        f' be the last rule in this chain" {destination} -j KUBE-NODEPORTS\n'
        for destination in node_port_destinations(node)
    )
