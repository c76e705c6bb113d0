"""What `explain` was asked, in people's words -> the packets that are meant. No I/O.

A destination is an address (`10.96.0.10:53/udp`, `[fd00::1]:80`, `10.96.0.10` alone for all that
the address serves) or a Service (`kube-system/kube-dns`, `kube-dns:dns`, `kube-dns:53/udp`).
A source is an address, `outside`, `host`, or a pod (`name` or `namespace/name`).
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from kubeproxy.errors import OperatorError
from kubeproxy.inet import PROTOCOL_BY_NAME, Family, Protocol, family_of, parse_address
from kubeproxy.nodefacts import NodeIPs
from kubeproxy.table.decide import Packet
from kubeproxy.table.entries import Entry, FrontendKey, FrontendKind, Table

OUTSIDE = {Family.IPV4: "192.0.2.1", Family.IPV6: "2001:db8::1"}
"""Documentation addresses stand for somebody outside; source ranges do not know them."""


class Question(msgspec.Struct, frozen=True):
    """A packet, and what was assumed to find it."""

    packet: Packet
    notes: tuple[str, ...] = ()


class Target(msgspec.Struct, frozen=True):
    """A destination in one family; without a protocol it is an ICMP echo."""

    address: str
    protocol: Protocol | None
    port: int


class Pod(msgspec.Struct, frozen=True):
    """A pod that a source may name."""

    namespace: str
    name: str
    ips: tuple[str, ...]


class Origin(msgspec.Struct, frozen=True):
    """What is known of possible sources: this node, its pods, and the interface of the packet."""

    ips: NodeIPs
    pods: Sequence[Pod] = ()
    interface: str = ""


def questions(
    source: str, destination: str, tables: Mapping[Family, Table], origin: Origin
) -> list[Question]:
    """The packets that a source and a destination stand for, one for each family and port."""
    found = []
    refused = ""
    for target in targets(destination, tables):
        family = family_of(target.address)
        try:
            address, notes = source_address(source, family, origin)
        except OperatorError as error:
            refused = str(error)
            continue
        packet = Packet(
            address,
            target.address,
            target.protocol,
            target.port,
            "" if source == "host" else origin.interface,
        )
        found.append(Question(packet, notes))
    if not found:
        raise OperatorError(refused)
    return found


def targets(text: str, tables: Mapping[Family, Table]) -> list[Target]:
    """The destinations that a text names; an error says why it names none."""
    where, slash, protocol_name = text.rpartition("/")
    protocol = PROTOCOL_BY_NAME.get(protocol_name.upper()) if slash else None
    if protocol is None:
        where = text
    host, port = _split_port(where)
    address = parse_address(host.strip("[]"))
    if address is None:
        return _service_targets(host, port, protocol, tables)
    if port:
        return [Target(address, protocol or Protocol.TCP, _number(port, text))]
    return _all_ports(address, protocol, tables)


def _split_port(where: str) -> tuple[str, str]:
    """`host:port` and `[v6]:port`; an IPv6 address without brackets has no port."""
    if parse_address(where) is not None or where.endswith("]"):
        return where, ""
    host, colon, port = where.rpartition(":")
    return (host, port) if colon else (where, "")


def _number(port: str, text: str) -> int:
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise OperatorError(f"--to {text}: {port!r} is not a port number")
    return int(port)


def _all_ports(
    address: str, protocol: Protocol | None, tables: Mapping[Family, Table]
) -> list[Target]:
    """Every port that services have at the address; an ICMP echo when there is none."""
    table = tables.get(family_of(address))
    keys: list[FrontendKey] = []
    for entry in table.entries.values() if table else ():
        keys += [key for key in entry.keys() if key.address == address]  # noqa: SIM118
    wanted = [key for key in sorted(keys) if protocol in (None, key.protocol)]
    found = [Target(address, key.protocol, key.port) for key in wanted]
    return found or [Target(address, None, 0)]


def _service_targets(
    name: str, port: str, protocol: Protocol | None, tables: Mapping[Family, Table]
) -> list[Target]:
    """The cluster IPs of a Service, with the ports that were asked for."""
    namespace, slash, service = name.rpartition("/")
    of_service = [
        entry
        for table in tables.values()
        for entry in table.entries.values()
        if entry.name.service == service and (not slash or entry.name.namespace == namespace)
    ]
    if not of_service:
        raise OperatorError(
            f"--to {name}: no such Service is proxied; give [NAMESPACE/]NAME or an address "
            "(headless and ExternalName Services are not proxied)"
        )
    namespaces = sorted({entry.name.namespace for entry in of_service})
    if len(namespaces) > 1:
        choices = ", ".join(f"{each}/{service}" for each in namespaces)
        raise OperatorError(f"--to {name}: several Services have that name: {choices}")
    found = [
        target
        for entry in of_service
        for target in _cluster_ips(entry)
        if protocol in (None, entry.protocol) and port in ("", entry.name.port, str(target.port))
    ]
    if not found:
        ports = sorted(
            {f"{t.port}/{e.protocol.name}" for e in of_service for t in _cluster_ips(e)}
        )
        raise OperatorError(f"--to {name}: it has no such port, but these: {', '.join(ports)}")
    return found


def _cluster_ips(entry: Entry) -> Iterator[Target]:
    for frontend in entry.frontends:
        if frontend.kind is FrontendKind.CLUSTER_IP:
            yield Target(frontend.address, entry.protocol, frontend.port)


def source_address(text: str, family: Family, origin: Origin) -> tuple[str, tuple[str, ...]]:
    """The source address in the family, and what was assumed."""
    if text == "outside":
        note = f"{OUTSIDE[family]} stands for a client outside the cluster"
        return OUTSIDE[family], (note,)
    if text == "host":
        ip = origin.ips.ips[family]
        known = origin.ips.known_ip(family) is not None
        note = f"the {family.value} address of the node is not known: assuming {ip}"
        return ip, () if known else (note,)
    address = parse_address(text)
    if address is not None:
        if family_of(address) is not family:
            raise OperatorError(f"--from {text} and --to are of different IP families")
        return address, ()
    return _pod_address(text, family, origin.pods), ()


def _pod_address(text: str, family: Family, pods: Sequence[Pod]) -> str:
    namespace, slash, name = text.rpartition("/")
    found = [pod for pod in pods if pod.name == name and (not slash or pod.namespace == namespace)]
    if not found:
        raise OperatorError(
            f"--from {text}: it is no address, and no Pod of that name is known; give "
            "[NAMESPACE/]POD, its address, outside or host (with --manifests, Pods are read "
            "from there too: kubectl get pods -A -o yaml)"
        )
    if len(found) > 1:
        choices = ", ".join(sorted(f"{pod.namespace}/{pod.name}" for pod in found))
        raise OperatorError(f"--from {text}: several Pods have that name: {choices}")
    for ip in found[0].ips:
        if family_of(ip) is family:
            return ip
    raise OperatorError(f"--from {text}: the Pod has no {family.value} address")
