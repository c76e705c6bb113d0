"""How packets come to the listeners: a small table of nftables, as text.

The rules are always the same; what changes are the elements of its sets and maps. The maps for
the node and its pods are looked up first, and have only what is different there.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.userspace.listeners import Listener, given
from kubeproxy.dataplane.userspace.settings import QUIRKS, TABLE
from kubeproxy.table.entries import Entry, FrontendKind
from kubeproxy.table.node import LOOPBACK, NodeView, PodCIDR
from kubeproxy.table.policy import Refusal

KEYWORD = {Family.IPV4: "ip", Family.IPV6: "ip6"}
_TYPE = {Family.IPV4: "ipv4_addr", Family.IPV6: "ipv6_addr"}
_REJECT = {Family.IPV4: "icmp", Family.IPV6: "icmpv6"}
_LOOPBACK = {Family.IPV4: "127.0.0.1", Family.IPV6: "::1"}
_AT_ONCE = 200

Port = Callable[[Listener], int]


class Element(NamedTuple):
    """An element of a set or a map; `data` is "" in a set."""

    set: str
    key: str
    data: str = ""

    def __str__(self) -> str:
        return f"{self.key} : {self.data}" if self.data else self.key


# --- the elements -----------------------------------------------------------------------------


def elements(entry: Entry, node: NodeView, port: Port) -> frozenset[Element]:
    """What a service port has in the table; `port` says where a listener listens."""
    return frozenset(_elements(entry, node, port))


def _elements(entry: Entry, node: NodeView, port: Port) -> Iterator[Element]:
    protocol = entry.protocol.name.lower()
    address = own_address(node)
    for each in given(entry, node):
        frontend = each.frontend
        where = f"{protocol} . {frontend.port}"
        kind = "node-ports"
        if frontend.address:
            where, kind = f"{frontend.address} . {where}", "services"
        if each.outside is not None:
            yield Element(kind, where, f"{address} . {port(each.outside)}")
        else:
            verdict = "goto refuse" if each.refusal is Refusal.REJECT else "drop"
            yield Element(f"{kind}-refused", where, verdict)
        if each.inside is not None:
            yield Element(f"{kind}-inside", where, f"{address} . {port(each.inside)}")
        for listener in each.listeners:
            yield Element("listening", f"{protocol} . {port(listener)}")
        if frontend.kind is FrontendKind.LOAD_BALANCER and entry.source_ranges is not None:
            yield Element("firewalled", where)
            yield from (Element("allowed", f"{where} . {each}") for each in _allowed(entry))


def _allowed(entry: Entry) -> Iterator[str]:
    """Who may use the load balancer's addresses."""
    yield from map(str, entry.source_ranges or ())
    if entry.own_vips:
        yield from entry.addresses(FrontendKind.LOAD_BALANCER)


# --- the table --------------------------------------------------------------------------------


def whole_table(node: NodeView, every: Iterable[Element]) -> str:
    """The text that makes the table anew, in one transaction, whatever there was."""
    header = f"table {KEYWORD[node.family]} {TABLE}"
    return f"{header}\ndelete {header}\n{header} {{\n{_declared(node)}}}\n" + "".join(
        lines("add", node.family, every)
    )


def change(family: Family, gone: Iterable[Element], come: Iterable[Element]) -> str:
    """The text that takes elements away and adds others, in one transaction."""
    return "".join((*lines("delete", family, gone), *lines("add", family, come)))


def deletion(family: Family) -> str:
    """The text that removes the table, if there is one."""
    header = f"table {KEYWORD[family]} {TABLE}"
    return f"{header}\ndelete {header}\n"


def lines(verb: str, family: Family, every: Iterable[Element]) -> Iterator[str]:
    """A line for some elements of a set."""
    by_set: dict[str, list[str]] = {}
    for each in every:
        by_set.setdefault(each.set, []).append(each.key if verb == "delete" else str(each))
    for name, texts in sorted(by_set.items()):
        texts.sort()
        for start in range(0, len(texts), _AT_ONCE):
            some = ", ".join(texts[start : start + _AT_ONCE])
            yield f"{verb} element {KEYWORD[family]} {TABLE} {name} {{ {some} }}\n"


def _declared(node: NodeView) -> str:
    """The sets and the rules."""
    word, address = KEYWORD[node.family], _TYPE[node.family]
    service = f"{address} . inet_proto . inet_service"
    ports = "inet_proto . inet_service"
    place = f"{address} . inet_service"
    to_service = f"{word} daddr . meta l4proto . th dport"
    to_port = "meta l4proto . th dport"
    here = f"{word} daddr @addresses"
    own = ", ".join(node.node_port_addresses(QUIRKS))
    own_elements = f"elements = {{ {own} }}; " if own else ""
    inside = "".join(f"\t\t{match} jump inside\n" for match in _inside(node))
    return f"""\
\tmap services {{ type {service} : {place}; }}
\tmap services-inside {{ type {service} : {place}; }}
\tmap services-refused {{ type {service} : verdict; }}
\tmap node-ports {{ type {ports} : {place}; }}
\tmap node-ports-inside {{ type {ports} : {place}; }}
\tmap node-ports-refused {{ type {ports} : verdict; }}
\tset addresses {{ type {address}; {own_elements}}}
\tset firewalled {{ type {service}; }}
\tset allowed {{ type {service} . {address}; flags interval; auto-merge; }}
\tset listening {{ type {ports}; }}
\tchain refuse {{
\t\treject with {_REJECT[node.family]} port-unreachable
\t}}
\tchain inside {{
\t\tmeta l4proto {{ tcp, udp }} dnat {word} to {to_service} map @services-inside
\t\t{here} meta l4proto {{ tcp, udp }} dnat {word} to {to_port} map @node-ports-inside
\t}}
\tchain everybody {{
\t\tmeta l4proto {{ tcp, udp }} dnat {word} to {to_service} map @services
\t\t{here} meta l4proto {{ tcp, udp }} dnat {word} to {to_port} map @node-ports
\t}}
\tchain sources {{
\t\t{to_service} @firewalled {to_service} . {word} saddr != @allowed drop
\t}}
\tchain refusals {{
\t\tct status dnat return
\t\t{to_service} vmap @services-refused
\t\t{here} {to_port} vmap @node-ports-refused
\t}}
\tchain prerouting-sources {{
\t\ttype filter hook prerouting priority dstnat - 10;
\t\tct state new jump sources
\t}}
\tchain output-sources {{
\t\ttype filter hook output priority -110;
\t\tct state new jump sources
\t}}
\tchain prerouting {{
\t\ttype nat hook prerouting priority dstnat;
{inside}\t\tjump everybody
\t}}
\tchain output {{
\t\ttype nat hook output priority -100;
\t\tjump inside
\t\tjump everybody
\t}}
\tchain input {{
\t\ttype filter hook input priority filter;
\t\tct state new jump refusals
\t\tct status & dnat == 0 {to_port} @listening goto refuse
\t}}
\tchain forward {{
\t\ttype filter hook forward priority filter;
\t\tct state new jump refusals
\t}}
\tchain output-refusals {{
\t\ttype filter hook output priority filter;
\t\tct state new jump refusals
\t}}
"""


def own_address(node: NodeView) -> str:
    """Where packets are led. An interface need not have an address, so it is one for all."""
    own = (each for each in node.addresses if not node.is_loopback(each))
    return node.ip or next(own, _LOOPBACK[node.family])


def _inside(node: NodeView) -> Iterator[str]:
    """Matches for what the node and its pods send."""
    word = KEYWORD[node.family]
    if isinstance(node.detector, PodCIDR):
        yield f"{word} saddr {node.detector.prefix}"
    elif node.detector is not None:
        yield f'iifname "{node.detector.name}{"*" if node.detector.prefix else ""}"'
    own = (*node.addresses, str(LOOPBACK[node.family]))
    yield f"{word} saddr {{ {', '.join(dict.fromkeys(own))} }}"
