"""An entry -> its rules, as `iptables-restore` reads them.

Top-level rules lead packets to the chains of a service, or refuse them: they are written at every
sync. The chains themselves are written when the service changes.
"""

from collections.abc import Iterable, Sequence

import msgspec

from kubeproxy.dataplane.iptables.names import (
    EXTERNAL_SERVICES,
    MARK_MASQ,
    NODE_PORTS,
    PROXY_FIREWALL,
    SERVICES,
    ServiceChains,
    endpoint_chain,
    service_chains,
)
from kubeproxy.dataplane.iptables.setup import LOCALHOST_COUNTER, Setup
from kubeproxy.inet import Family
from kubeproxy.table.entries import Backend, Entry, Frontend, FrontendKind
from kubeproxy.table.node import LOOPBACK

_WORD = {
    FrontendKind.CLUSTER_IP: "cluster IP",
    FrontendKind.EXTERNAL_IP: "external IP",
    FrontendKind.LOAD_BALANCER: "loadbalancer IP",
}
_FROM_HOST = "-m addrtype --src-type LOCAL"


class TopRules(msgspec.Struct, frozen=True):
    """The top-level rules of a service port, in each of the two tables."""

    filter: str = ""
    nat: str = ""


def top_rules(entry: Entry, setup: Setup, health_check_port: int = 0) -> TopRules:
    """The rules that lead to the entry's chains, or refuse what has nobody to go to."""
    filters: list[str] = []
    nats: list[str] = []
    for kind in (FrontendKind.CLUSTER_IP, FrontendKind.EXTERNAL_IP, FrontendKind.LOAD_BALANCER):
        for frontend in entry.frontends:
            if frontend.kind is kind:
                _address_rules(entry, frontend, filters, nats)
    for frontend in entry.frontends:
        if frontend.kind is FrontendKind.NODE_PORT:
            _node_port_rules(entry, frontend.port, setup, filters, nats)
    if health_check_port:
        filters.append(
            f"-A {NODE_PORTS} {_comment(f'{entry.name} health check node port')}"
            f" -m tcp -p tcp --dport {health_check_port} -j ACCEPT\n"
        )
    return TopRules("".join(filters), "".join(nats))


def chain_rules(entry: Entry, setup: Setup, *, brief: bool = False) -> dict[str, str]:
    """The chains of the entry, each with its rules. `brief` leaves comments of endpoints out."""
    chains = service_chains(entry.name)
    found: dict[str, str] = {}
    if entry.any and entry.externally_accessible:
        found[chains.external] = _external_chain(entry, chains, setup)
    if is_firewalled(entry):
        found[chains.firewall] = _firewall_chain(entry, chains)
    backends = _reachable(entry)
    seps = {backend: endpoint_chain(entry.name, text) for text, backend in backends}
    for chain, chosen in ((chains.cluster, entry.cluster), (chains.local, entry.local)):
        if chosen:
            found[chain] = (
                _cluster_ip_masquerade(entry, chain, setup)
                if (chain == chains.local) == entry.internal_local
                else ""
            ) + _choice(entry, chain, [(b, seps[b]) for b in chosen], brief=brief)
    for text, backend in backends:
        found[seps[backend]] = _endpoint_chain(entry, seps[backend], (text, backend), brief=brief)
    return found


def is_firewalled(entry: Entry) -> bool:
    """Whether source ranges are checked; upstream does so only for services in use."""
    if entry.source_ranges is None or not entry.any:
        return False
    return any(frontend.kind is FrontendKind.LOAD_BALANCER for frontend in entry.frontends)


def _reachable(entry: Entry) -> list[tuple[str, Backend]]:
    """Every backend that some chain leads to, with its text, in upstream's order."""
    if not entry.local:
        return [(str(backend), backend) for backend in entry.cluster]
    every = {str(backend): backend for backend in (*entry.cluster, *entry.local)}
    return sorted(every.items())


def _address_rules(entry: Entry, frontend: Frontend, filters: list[str], nats: list[str]) -> None:
    """The rules of one address of the entry's own."""
    chains = service_chains(entry.name)
    kind = frontend.kind
    match = f"{_protocol(entry)} -d {frontend.address} --dport {frontend.port}"
    serves = entry.any
    chain = chains.external
    if kind is FrontendKind.CLUSTER_IP:
        serves = _serves(entry, local=entry.internal_local)
        chain = chains.local if entry.internal_local else chains.cluster
    elif kind is FrontendKind.LOAD_BALANCER and is_firewalled(entry):
        chain = chains.firewall
        text = f"{entry.name} traffic not accepted by {chain}"
        filters.append(f"-A {PROXY_FIREWALL} {_comment(text)} {match} -j DROP\n")
    if serves:
        comment = _comment(f"{entry.name} {_WORD[kind]}")
        nats.append(f"-A {SERVICES} {comment} {match} -j {chain}\n")
    if not _serves(entry, local=entry.external_local if kind.external else entry.internal_local):
        refusing = EXTERNAL_SERVICES if kind.external else SERVICES
        comment, target = _refusal(entry)
        filters.append(f"-A {refusing} {comment} {match} -j {target}\n")


def _node_port_rules(
    entry: Entry, port: int, setup: Setup, filters: list[str], nats: list[str]
) -> None:
    protocol = _protocol(entry)
    if entry.any:
        head = f"-A {NODE_PORTS} {_comment(str(entry.name))} {protocol}"
        chain = service_chains(entry.name).external
        if setup.counts_localhost:
            counter = f"-m nfacct --nfacct-name {LOCALHOST_COUNTER}"
            nats.append(f"{head} -d {LOOPBACK[Family.IPV4]} --dport {port} {counter} -j {chain}\n")
        nats.append(f"{head} --dport {port} -j {chain}\n")
    if not _serves(entry, local=entry.external_local):
        comment, target = _refusal(entry)
        filters.append(
            f"-A {EXTERNAL_SERVICES} {comment} -m addrtype --dst-type LOCAL"
            f" {protocol} --dport {port} -j {target}\n"
        )


def _serves(entry: Entry, *, local: bool) -> bool:
    """Whether somebody serves under a traffic policy."""
    return entry.any and (not local or bool(entry.local))


def _refusal(entry: Entry) -> tuple[str, str]:
    """Why nobody serves, and what becomes of the packet."""
    if entry.any:
        return _comment(f"{entry.name} has no local endpoints"), "DROP"
    return _comment(f"{entry.name} has no endpoints"), "REJECT"


def _external_chain(entry: Entry, chains: ServiceChains, setup: Setup) -> str:
    head = f"-A {chains.external}"
    what = f"for {entry.name} external destinations"
    if not entry.external_local:
        rules = [f"{_comment(f'masquerade traffic {what}')} -j {MARK_MASQ}"]
    else:
        rules = []
        if setup.from_pod:
            rules.append(f"{_comment(f'pod traffic {what}')} {setup.from_pod} -j {chains.cluster}")
        rules += [
            f"{_comment(f'masquerade LOCAL traffic {what}')} {_FROM_HOST} -j {MARK_MASQ}",
            f"{_comment(f'route LOCAL traffic {what}')} {_FROM_HOST} -j {chains.cluster}",
        ]
    if _serves(entry, local=entry.external_local):
        rules.append(f"-j {chains.local if entry.external_local else chains.cluster}")
    return _lines(head, rules)


def _firewall_chain(entry: Entry, chains: ServiceChains) -> str:
    sources = [str(range_) for range_ in entry.source_ranges or ()]
    if entry.own_vips:
        sources += entry.addresses(FrontendKind.LOAD_BALANCER)
    comment = _comment(f"{entry.name} loadbalancer IP")
    rules = [f"{comment} -s {source} -j {chains.external}" for source in sources]
    rules.append(_comment(f"other traffic to {entry.name} will be dropped by {PROXY_FIREWALL}"))
    return _lines(f"-A {chains.firewall}", rules)


def _cluster_ip_masquerade(entry: Entry, chain: str, setup: Setup) -> str:
    """The rule that masquerades what comes from elsewhere than pods; "" when there is none."""
    if setup.masquerade_all:
        source = ""
    elif setup.not_from_pod:
        source = f" {setup.not_from_pod}"
    else:
        return ""
    comment = _comment(f"{entry.name} cluster IP")
    return "".join(
        f"-A {chain} {comment} {_protocol(entry)} -d {frontend.address}"
        f" --dport {frontend.port}{source} -j {MARK_MASQ}\n"
        for frontend in entry.frontends
        if frontend.kind is FrontendKind.CLUSTER_IP
    )


def _choice(
    entry: Entry, chain: str, backends: Sequence[tuple[Backend, str]], *, brief: bool
) -> str:
    """The rules that choose a backend: the client's own, else any with the same chance."""
    heads = [
        f"-A {chain}" if brief else f"-A {chain} {_comment(f'{entry.name} -> {backend}')}"
        for backend, _ in backends
    ]
    rules = []
    if entry.affinity_seconds:
        rules = [
            f"{head} -m recent --name {sep} --rcheck --seconds {entry.affinity_seconds} --reap"
            f" -j {sep}\n"
            for head, (_, sep) in zip(heads, backends, strict=True)
        ]
    count = len(backends)
    for index, (head, (_, sep)) in enumerate(zip(heads, backends, strict=True)):
        left = count - index
        chance = f" -m statistic --mode random --probability {1 / left:.10f}" if left > 1 else ""
        rules.append(f"{head}{chance} -j {sep}\n")
    return "".join(rules)


def _endpoint_chain(entry: Entry, chain: str, at: tuple[str, Backend], *, brief: bool) -> str:
    """The rules of one endpoint: a hairpin is masqueraded, and everything goes there."""
    text, backend = at
    head = f"-A {chain}" if brief else f"-A {chain} {_comment(str(entry.name))}"
    recent = f" -m recent --name {chain} --set" if entry.affinity_seconds else ""
    return (
        f"{head} -s {backend.address} -j {MARK_MASQ}\n"
        f"{head}{recent} {_protocol(entry)} -j DNAT --to-destination {text}\n"
    )


def _protocol(entry: Entry) -> str:
    name = entry.protocol.name.lower()
    return f"-m {name} -p {name}"


def _comment(text: str) -> str:
    return f'-m comment --comment "{text}"'


def _lines(head: str, rules: Iterable[str]) -> str:
    return "".join(f"{head} {rule}\n" for rule in rules)
