"""An entry -> its rules, as `iptables-restore` reads them.

Top-level rules lead packets to the chains of a service, or refuse them. Every sync writes those of
all services, and the chains of services that changed.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.iptables.names import ServiceChains, endpoint_chain, seed, service_chains
from kubeproxy.dataplane.iptables.setup import LOCALHOST_COUNTER, RuleSetup
from kubeproxy.table.entries import Backend, Entry, Frontend, FrontendKind
from kubeproxy.table.node import LOOPBACK
from kubeproxy.table.policy import Refusal, Scope

_LONGEST_COMMENT = 255
_UNFIT = re.compile(r"[^ !#-\[\]-~]")
"""What a comment may not have: quotation marks, backslashes, and all but printable ASCII."""
_WORD = {
    FrontendKind.CLUSTER_IP: "cluster IP",
    FrontendKind.EXTERNAL_IP: "external IP",
    FrontendKind.LOAD_BALANCER: "loadbalancer IP",
}
_FROM_HOST = "-m addrtype --src-type LOCAL"


class _End(NamedTuple):
    """An endpoint: its address, `address:port`, and the name of its chain."""

    address: str
    text: str
    chain: str


class TopRules(msgspec.Struct, frozen=True):
    """The top-level rules of a service port, in each of the two tables."""

    filter: str = ""
    nat: str = ""


def top_rules(entry: Entry, setup: RuleSetup, health_check_port: int = 0) -> TopRules:
    """The rules that lead to the entry's chains, or refuse packets without an endpoint."""
    filters: list[str] = []
    nats: list[str] = []
    chains = service_chains(entry.name)
    for kind in (FrontendKind.CLUSTER_IP, FrontendKind.EXTERNAL_IP, FrontendKind.LOAD_BALANCER):
        for frontend in entry.frontends:
            if frontend.kind is kind:
                _address_rules(entry, chains, frontend, filters, nats)
    for frontend in entry.frontends:
        if frontend.kind is FrontendKind.NODE_PORT:
            _node_port_rules(entry, frontend.port, setup, filters, nats)
    if health_check_port:
        filters.append(
            f"-A KUBE-NODEPORTS {_comment(f'{entry.name} health check node port')}"
            f" -m tcp -p tcp --dport {health_check_port} -j ACCEPT\n"
        )
    return TopRules("".join(filters), "".join(nats))


def chain_rules(entry: Entry, setup: RuleSetup, *, brief: bool = False) -> dict[str, str]:
    """The chains of the entry, each with its rules. `brief` leaves comments of endpoints out."""
    chains = service_chains(entry.name)
    found: dict[str, str] = {}
    if entry.externally_accessible and entry.serves(FrontendKind.NODE_PORT):
        found[chains.external] = _external_chain(entry, chains, setup)
    if is_firewalled(entry):
        found[chains.firewall] = _firewall_chain(entry, chains)
    ends = _ends(entry, seed(entry.name))
    internal = entry.internal.outside.scope
    for scope in Scope:
        chosen = [ends[backend] for backend in entry.backends(scope)]
        if chosen:
            chain = chains.choosing(scope)
            masquerade = _cluster_ip_masquerade(entry, chain, setup) if scope is internal else ""
            found[chain] = masquerade + _choice(entry, chain, chosen, brief=brief)
    found.update(_endpoint_chains(entry, ends.values(), brief=brief))
    return found


def is_firewalled(entry: Entry) -> bool:
    """Whether source ranges are checked: only where some source gets an endpoint."""
    kind = FrontendKind.LOAD_BALANCER
    if entry.source_ranges is None or not entry.serves(kind):
        return False
    return any(frontend.kind is kind for frontend in entry.frontends)


def _ends(entry: Entry, seed_: str) -> dict[Backend, _End]:
    """All backends that a chain leads to, in upstream's order."""
    every: Iterable[Backend] = entry.cluster
    if entry.local:
        every = sorted({*entry.cluster, *entry.local}, key=str)
    texts = [(backend, str(backend)) for backend in every]
    return {b: _End(b.address, text, endpoint_chain(seed_, text)) for b, text in texts}


def _address_rules(
    entry: Entry,
    chains: ServiceChains,
    frontend: Frontend,
    filters: list[str],
    nats: list[str],
) -> None:
    """The rules of one address of the entry's own."""
    kind = frontend.kind
    match = f"{_protocol(entry)} -d {frontend.address} --dport {frontend.port}"
    policy = entry.policy(kind)
    chain = chains.external if kind.external else chains.choosing(policy.outside.scope)
    if kind is FrontendKind.LOAD_BALANCER and is_firewalled(entry):
        chain = chains.firewall
        text = f"{entry.name} traffic not accepted by {chain}"
        filters.append(f"-A KUBE-PROXY-FIREWALL {_comment(text)} {match} -j DROP\n")
    if entry.serves(kind):
        comment = _comment(f"{entry.name} {_WORD[kind]}")
        nats.append(f"-A KUBE-SERVICES {comment} {match} -j {chain}\n")
    head = "-A KUBE-EXTERNAL-SERVICES" if kind.external else "-A KUBE-SERVICES"
    filters.append(_refusal(entry, policy.outside.scope, head, match))


def _node_port_rules(
    entry: Entry, port: int, setup: RuleSetup, filters: list[str], nats: list[str]
) -> None:
    protocol = _protocol(entry)
    if entry.serves(FrontendKind.NODE_PORT):
        head = f"-A KUBE-NODEPORTS {_comment(str(entry.name))} {protocol}"
        chain = service_chains(entry.name).external
        if setup.counts_localhost:
            counter = f"-m nfacct --nfacct-name {LOCALHOST_COUNTER}"
            nats.append(f"{head} -d {LOOPBACK[Family.IPV4]} --dport {port} {counter} -j {chain}\n")
        nats.append(f"{head} --dport {port} -j {chain}\n")
    match = f"-m addrtype --dst-type LOCAL {protocol} --dport {port}"
    scope = entry.external.outside.scope
    filters.append(_refusal(entry, scope, "-A KUBE-EXTERNAL-SERVICES", match))


def _refusal(entry: Entry, scope: Scope, head: str, packets: str) -> str:
    """The rule that refuses packets without an endpoint; "" when all sources get one.

    Refusals come after the choice, and no source gets less than clients outside: theirs count.
    """
    refusal = entry.refusal(scope)
    if refusal is None:
        return ""
    lack = "no local endpoints" if refusal is Refusal.DROP else "no endpoints"
    return f"{head} {_comment(f'{entry.name} has {lack}')} {packets} -j {refusal.name}\n"


def _external_chain(entry: Entry, chains: ServiceChains, setup: RuleSetup) -> str:
    """What each class of source gets from external addresses; clients outside come last."""
    what = f"traffic for {entry.name} external destinations"
    policy = entry.external
    rules = []
    for source, word, treatment in (
        (setup.from_pod, "pod", policy.pod),
        (_FROM_HOST, "route LOCAL", policy.host),
    ):
        if not source or treatment is policy.outside:
            continue
        if treatment.masquerade:
            comment = _comment(f"masquerade {word.removeprefix('route ')} {what}")
            rules.append(f"{comment} {source} -j KUBE-MARK-MASQ")
        target = chains.choosing(treatment.scope)
        rules.append(f"{_comment(f'{word} {what}')} {source} -j {target}")
    if policy.outside.masquerade:
        rules.append(f"{_comment(f'masquerade {what}')} -j KUBE-MARK-MASQ")
    if entry.backends(policy.outside.scope):
        rules.append(f"-j {chains.choosing(policy.outside.scope)}")
    return _lines(f"-A {chains.external}", rules)


def _firewall_chain(entry: Entry, chains: ServiceChains) -> str:
    sources = [str(range_) for range_ in entry.source_ranges or ()]
    if entry.own_vips:
        sources += entry.addresses(FrontendKind.LOAD_BALANCER)
    comment = _comment(f"{entry.name} loadbalancer IP")
    rules = [f"{comment} -s {source} -j {chains.external}" for source in sources]
    rules.append(_comment(f"other traffic to {entry.name} will be dropped by KUBE-PROXY-FIREWALL"))
    return _lines(f"-A {chains.firewall}", rules)


def _cluster_ip_masquerade(entry: Entry, chain: str, setup: RuleSetup) -> str:
    """The rules that masquerade packets to cluster IPs; "" when there are none."""
    if setup.masqueraded is None:
        return ""
    source = f" {setup.masqueraded}" if setup.masqueraded else ""
    comment = _comment(f"{entry.name} cluster IP")
    return "".join(
        f"-A {chain} {comment} {_protocol(entry)} -d {frontend.address}"
        f" --dport {frontend.port}{source} -j KUBE-MARK-MASQ\n"
        for frontend in entry.frontends
        if frontend.kind is FrontendKind.CLUSTER_IP
    )


def _choice(entry: Entry, chain: str, ends: Sequence[_End], *, brief: bool) -> str:
    """The rules that choose a backend: the one the client had, else any with equal chance."""
    name = str(entry.name)
    heads = [f"-A {chain}"] * len(ends)
    if not brief:
        heads = [f"-A {chain} {_comment(f'{name} -> {end.text}')}" for end in ends]
    rules = []
    if entry.affinity_seconds:
        check = f"--rcheck --seconds {entry.affinity_seconds} --reap"
        rules = [
            f"{head} -m recent --name {end.chain} {check} -j {end.chain}\n"
            for head, end in zip(heads, ends, strict=True)
        ]
    left = len(ends)
    for head, end in zip(heads, ends, strict=True):
        chance = f" -m statistic --mode random --probability {1 / left:.10f}" if left > 1 else ""
        rules.append(f"{head}{chance} -j {end.chain}\n")
        left -= 1
    return "".join(rules)


def _endpoint_chains(entry: Entry, ends: Iterable[_End], *, brief: bool) -> dict[str, str]:
    """The rules of the endpoints: a hairpin is masqueraded, and all packets are sent there."""
    comment = "" if brief else f" {_comment(str(entry.name))}"
    protocol = _protocol(entry)
    found = {}
    for end in ends:
        head = f"-A {end.chain}{comment}"
        recent = f" -m recent --name {end.chain} --set" if entry.affinity_seconds else ""
        found[end.chain] = (
            f"{head} -s {end.address} -j KUBE-MARK-MASQ\n"
            f"{head}{recent} {protocol} -j DNAT --to-destination {end.text}\n"
        )
    return found


def _protocol(entry: Entry) -> str:
    name = entry.protocol.name.lower()
    return f"-m {name} -p {name}"


def _comment(text: str) -> str:
    # No API server accepts such names, but a manifest may have them: the rules stay valid.
    if len(text) > _LONGEST_COMMENT or _UNFIT.search(text):
        text = _UNFIT.sub("?", text)[:_LONGEST_COMMENT]
    return f'-m comment --comment "{text}"'


def _lines(head: str, rules: Iterable[str]) -> str:
    return "".join(f"{head} {rule}\n" for rule in rules)
