"""The texts of a question to `explain` -> the packets that are meant. No I/O.

A destination is an address (`10.96.0.10:53/udp`, `[fd00::1]:80`, `10.96.0.10` alone for all that
the address serves) or a Service (`kube-system/kube-dns`, `kube-dns:dns`, `kube-dns:53/udp`).
A source is an address, `outside`, `host`, or a pod (`name` or `namespace/name`).
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kubeproxy.base.errors import FieldError
from kubeproxy.base.inet import Family, Protocol, family_of, parse_address
from kubeproxy.engine.node import LOOPBACK_IP
from kubeproxy.explain.destination import Destination, destination
from kubeproxy.table.decide import Packet
from kubeproxy.table.entries import FrontendKind, ServicePortName, Table

OUTSIDE = {Family.IPV4: "192.0.2.1", Family.IPV6: "2001:db8::1"}
"""Documentation addresses stand for any client outside; they are in no source range."""


class Question(msgspec.Struct, frozen=True):
    """A packet, and the assumptions that led to it."""

    packet: Packet
    notes: tuple[str, ...] = ()


class Target(msgspec.Struct, frozen=True):
    """A destination in one family; without a protocol it is an ICMP echo."""

    address: str
    protocol: Protocol | None
    port: int
    notes: tuple[str, ...] = ()


class Pod(msgspec.Struct, frozen=True):
    """A pod that a source may name. `node` is "" before it has one."""

    namespace: str
    name: str
    ips: tuple[str, ...]
    node: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Origin(msgspec.Struct, frozen=True):
    """What is known of possible sources: this node, the pods, and the interface of the packet.

    `pods` is None where Pods are not known, as in the daemon.
    """

    node: str
    ips: Mapping[Family, str]
    pods: Sequence[Pod] | None = ()
    interface: str = ""


def questions(
    source: str, destination: str, tables: Mapping[Family, Table], origin: Origin
) -> list[Question]:
    """The packets that a source and a destination mean, one for each family and port."""
    found = []
    wrong: FieldError | None = None
    for target in targets(destination, tables):
        family = family_of(target.address)
        try:
            address, notes = source_address(source, family, origin)
        except FieldError as error:
            wrong = error
            continue
        packet = Packet(
            address,
            target.address,
            target.protocol,
            target.port,
            "" if source == "host" else origin.interface,
        )
        found.append(Question(packet, (*target.notes, *notes)))
    if wrong is not None and not found:
        raise wrong
    return found


def targets(text: str, tables: Mapping[Family, Table]) -> list[Target]:
    """The destinations that a text names; raises `FieldError` when there is none."""
    asked = destination(text)
    if not asked.address:
        return _service_targets(asked, tables)
    address, protocol = asked.address, asked.protocol
    if family_of(address) not in tables:
        raise FieldError("to", text, f"{family_of(address).value} is not proxied here")
    if asked.port:
        return [Target(address, protocol or Protocol.TCP, asked.number)]
    keys = tables[family_of(address)].destinations(address)
    wanted = [key for key in keys if protocol in (None, key.protocol)]
    if not wanted and protocol is not None:
        name = protocol.name
        raise FieldError("to", text, f"no service serves {name} there; give ADDRESS:PORT/{name}")
    found = [Target(address, key.protocol, key.port) for key in wanted]
    return found or [Target(address, None, 0, ("without a port, it is taken for a ping",))]


def _service_targets(asked: Destination, tables: Mapping[Family, Table]) -> list[Target]:
    """The cluster IPs of a Service, with the ports that were asked for."""
    text = asked.text
    namespace, slash, service = asked.service.rpartition("/")
    of_service = [
        table.entries[name]
        for table in tables.values()
        for name in table.entries
        if name.service == service and (not slash or name.namespace == namespace)
    ]
    if not of_service:
        raise FieldError(
            "to",
            text,
            "no such Service is proxied; give [NAMESPACE/]NAME or an address "
            "(headless and ExternalName Services are not proxied)",
        )
    namespaces = sorted({entry.name.namespace for entry in of_service})
    if len(namespaces) > 1:
        choices = ", ".join(f"{each}/{service}" for each in namespaces)
        raise FieldError("to", text, f"several Services have that name: {choices}")
    every = [
        (entry.name, Target(frontend.address, entry.protocol, frontend.port))
        for entry in of_service
        for frontend in entry.frontends
        if frontend.kind is FrontendKind.CLUSTER_IP
    ]
    if not every:
        raise FieldError("to", text, "another Service has its cluster IP; give an address")
    found = [
        target
        for name, target in every
        if asked.protocol in (None, name.protocol)
        and asked.port in ("", name.port, str(target.port))
    ]
    if not found:
        ports = ", ".join(dict.fromkeys(_port_text(*each) for each in every))
        raise FieldError("to", text, f"the Service has no such port, but these: {ports}")
    return found


def _port_text(name: ServicePortName, target: Target) -> str:
    number = f"{target.port}/{name.protocol.name}"
    return f"{name.port} ({number})" if name.port else number


def source_address(text: str, family: Family, origin: Origin) -> tuple[str, tuple[str, ...]]:
    """The source address in the family, and what was assumed."""
    if text == "outside":
        note = f"{OUTSIDE[family]} stands for any client outside (--from ADDRESS names one)"
        return OUTSIDE[family], (note,)
    if text == "host":
        if family in origin.ips:
            return origin.ips[family], ()
        ip = LOOPBACK_IP[family]
        return ip, (f"the {family.value} address of the node is not known: assuming {ip}",)
    address = parse_address(text.strip("[]"))
    if address is not None:
        if family_of(address) is not family:
            own = family_of(address).value
            raise FieldError("from", text, f"it is {own}, but the destination is {family.value}")
        return address, ()
    return _pod_address(text, family, origin)


def find_pods(text: str, pods: Iterable[Pod]) -> list[Pod]:
    """The pods that `[NAMESPACE/]NAME` may mean."""
    namespace, slash, name = text.rpartition("/")
    return [pod for pod in pods if pod.name == name and (not slash or pod.namespace == namespace)]


def _pod_address(text: str, family: Family, origin: Origin) -> tuple[str, tuple[str, ...]]:
    if origin.pods is None:
        raise FieldError(
            "from",
            text,
            "it is no address, and the daemon knows no Pods; give the Pod's "
            "address (kubectl get pods -o wide), outside or host",
        )
    found = find_pods(text, origin.pods)
    if not found:
        raise FieldError(
            "from",
            text,
            "it is no address, and no Pod of that name is known; give "
            "[NAMESPACE/]POD, its address, outside or host (with --manifests, Pods are read "
            "from there too: kubectl get pods -A -o yaml)",
        )
    if len(found) > 1:
        choices = ", ".join(sorted(map(str, found)))
        raise FieldError("from", text, f"several Pods have that name: {choices}")
    pod = found[0]
    ip = next((ip for ip in pod.ips if family_of(ip) is family), None)
    if ip is None:
        raise FieldError("from", text, f"the Pod has no {family.value} address")
    note = f"{ip} is Pod {pod}"
    if pod.node not in {"", origin.node}:
        note += f", whose packets are handled on node {pod.node} (--node {pod.node})"
    return ip, (note,)
