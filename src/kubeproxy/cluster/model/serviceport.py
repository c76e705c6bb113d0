"""Service -> service ports: one value for each of `spec.ports` in one IP family.

Manifests and old clusters can have values that API validation would refuse: an invalid entry is
left out and becomes a `Problem`.
"""

import msgspec

from kubeproxy.base.healing import Healing, parse_healing
from kubeproxy.base.inet import (
    PROTOCOL_BY_NAME,
    Family,
    Prefix,
    Protocol,
    family_of,
    parse_address,
    parse_prefix,
)
from kubeproxy.base.printable import quoted
from kubeproxy.cluster.objects.types import Service, ServiceSpec

DEFAULT_AFFINITY_SECONDS = 10800
MOST_AFFINITY_SECONDS = 86400

BALANCE_ANNOTATION = "kubeproxy.io/balance"
BALANCES = ("random", "round-robin", "source-hash")
HEALING_ANNOTATION = "kubeproxy.io/healing"


class ServicePort(msgspec.Struct, frozen=True):
    """One port of one Service in one IP family, with what decides about packets.

    `source_ranges` is None when every client may use the load balancer's addresses, and empty
    when there are ranges but none of this family: then no client may.
    `externally_accessible` also counts external IPs that a feature gate keeps from being served.
    `balance` is how an endpoint is chosen; "" leaves that to the proxy's configuration. So does
    None for `healing`. `has_selector` says that a controller lists the endpoints: they are pods.
    `created` is the creation time of the Service: of two that claim one address, the older one is
    served.
    """

    name: str
    protocol: Protocol
    cluster_ip: str
    port: int
    node_port: int = 0
    external_ips: tuple[str, ...] = ()
    load_balancer_ips: tuple[str, ...] = ()
    source_ranges: tuple[Prefix, ...] | None = None
    internal_local: bool = False
    external_local: bool = False
    externally_accessible: bool = False
    affinity_seconds: int = 0
    health_check_port: int = 0
    balance: str = ""
    healing: Healing | None = None
    has_selector: bool = False
    created: str = ""


def derive_service_ports(
    service: Service, family: Family, problems: list[str], *, allow_external_ips: bool = True
) -> tuple[ServicePort, ...]:
    """The ports of the Service that are proxied in the family; none when it is not proxied.

    Invalid parts are left out, and become problems.
    """
    spec = service.spec
    if spec is None or spec.type == "ExternalName" or spec.cluster_ip == "None":
        return ()
    if not spec.cluster_ip:  # an API server assigns one; a manifest may lack it
        problems.append("spec.clusterIP is missing: the Service is not proxied")
        return ()
    cluster_ip = _cluster_ip(spec, family, problems)
    if cluster_ip is None:
        return ()
    external_ips = _addresses(spec.external_ips, family, "spec.externalIPs", problems)
    balancer_ips = _balancer_ips(service, family, problems)
    external_local = spec.external_traffic_policy == "Local" and (
        spec.type in {"LoadBalancer", "NodePort"} or bool(spec.external_ips)
    )
    shared = ServicePort(
        name="",
        protocol=Protocol.TCP,
        cluster_ip=cluster_ip,
        port=0,
        external_ips=external_ips if allow_external_ips else (),
        load_balancer_ips=balancer_ips,
        source_ranges=_source_ranges(spec, family, problems),
        internal_local=spec.internal_traffic_policy == "Local",
        external_local=external_local,
        externally_accessible=bool(external_ips or balancer_ips),
        affinity_seconds=_affinity_seconds(spec, problems),
        health_check_port=_health_check_port(spec, problems) if external_local else 0,
        balance=_balance(service, problems),
        healing=_healing(service, problems),
        has_selector=bool(spec.selector),
        created=service.metadata.creation_timestamp or "",
    )
    return _ports(spec, shared, problems)


def _ports(spec: ServiceSpec, shared: ServicePort, problems: list[str]) -> tuple[ServicePort, ...]:
    ports: dict[tuple[str, Protocol], ServicePort] = {}
    for index, entry in enumerate(spec.ports or ()):
        protocol = PROTOCOL_BY_NAME.get(entry.protocol or "TCP")
        where = f"spec.ports[{index}]"
        if protocol is None:
            problems.append(f"{where}.protocol {quoted(entry.protocol)} is none of TCP, UDP, SCTP")
            continue
        if not 0 < entry.port < 65536:
            problems.append(f"{where}.port {quoted(entry.port)} is not a port number")
            continue
        node_port = entry.node_port or 0
        if not 0 <= node_port < 65536:
            problems.append(f"{where}.nodePort {quoted(node_port)} is not a port number")
            node_port = 0
        key = (entry.name or "", protocol)
        if key in ports:
            problems.append(f"{where} repeats the name and protocol of an earlier port")
            continue
        ports[key] = msgspec.structs.replace(
            shared,
            name=key[0],
            protocol=protocol,
            port=entry.port,
            node_port=node_port,
            externally_accessible=shared.externally_accessible or node_port != 0,
        )
    return tuple(ports.values())


def _cluster_ip(spec: ServiceSpec, family: Family, problems: list[str]) -> str | None:
    """The cluster IP of the family: by position in `ipFamilies`, else the only one."""
    if spec.ip_families:
        if family.value not in spec.ip_families:
            return None
        index = spec.ip_families.index(family.value)
        listed = spec.cluster_ips or ((spec.cluster_ip,) if spec.cluster_ip else ())
        if index >= len(listed):
            return None
        text = listed[index]
    else:
        text = spec.cluster_ip or ""
    address = parse_address(text)
    if address is None:
        problems.append(f"the cluster IP {quoted(text)} is not an IP address")
        return None
    if family_of(address) is not family:
        if spec.ip_families:
            problems.append(f"the cluster IP {quoted(text)} is not {family.value}")
        return None
    return address


def _addresses(
    texts: tuple[str, ...] | None, family: Family, where: str, problems: list[str]
) -> tuple[str, ...]:
    """The addresses of the family, once each; invalid ones become problems."""
    found: dict[str, None] = {}
    for text in texts or ():
        address = parse_address(text)
        if address is None:
            if text:
                problems.append(f"{where}: {quoted(text)} is not an IP address")
        elif family_of(address) is family:
            found[address] = None
    return tuple(found)


def _balancer_ips(service: Service, family: Family, problems: list[str]) -> tuple[str, ...]:
    """The load balancer's addresses that this node serves."""
    balancer = service.status.load_balancer if service.status else None
    ingress = (balancer.ingress if balancer else None) or ()
    ips = tuple(entry.ip or "" for entry in ingress if entry.ip_mode in (None, "VIP"))
    return _addresses(ips, family, "status.loadBalancer.ingress", problems)


def _source_ranges(
    spec: ServiceSpec, family: Family, problems: list[str]
) -> tuple[Prefix, ...] | None:
    """The clients that may use the load balancer's addresses; None for all.

    Upstream admits all clients when no range of the family is left. The ranges are there to
    restrict access, so here no client of the family is admitted then.
    """
    if not any(text.strip() for text in spec.load_balancer_source_ranges or ()):
        return None
    ranges: dict[Prefix, None] = {}
    for text in spec.load_balancer_source_ranges or ():
        prefix = parse_prefix(text.strip())
        if prefix is None:
            problems.append(f"spec.loadBalancerSourceRanges: {quoted(text)} is not a CIDR")
        elif prefix.family is family:
            ranges[prefix] = None
    if any(prefix.length == 0 for prefix in ranges):
        return None
    return tuple(ranges)


def _affinity_seconds(spec: ServiceSpec, problems: list[str]) -> int:
    """How long a client keeps its endpoint; 0 without affinity."""
    if spec.session_affinity != "ClientIP":
        return 0
    config = spec.session_affinity_config
    seconds = config.client_ip.timeout_seconds if config and config.client_ip else None
    if not seconds or seconds < 0:
        return DEFAULT_AFFINITY_SECONDS
    if seconds > MOST_AFFINITY_SECONDS:
        problems.append(
            f"spec.sessionAffinityConfig.clientIP.timeoutSeconds {quoted(seconds)} is more than a"
            f" day: a client keeps its endpoint for {MOST_AFFINITY_SECONDS} seconds"
        )
    return min(seconds, MOST_AFFINITY_SECONDS)


def _balance(service: Service, problems: list[str]) -> str:
    """The value of our own annotation."""
    wanted = (service.metadata.annotations or {}).get(BALANCE_ANNOTATION, "")
    if wanted in ("", *BALANCES):
        return wanted
    known = ", ".join(BALANCES)
    problems.append(f"annotation {BALANCE_ANNOTATION} {quoted(wanted)} is none of {known}")
    return ""


def _healing(service: Service, problems: list[str]) -> Healing | None:
    """What our own annotation asks for."""
    wanted = (service.metadata.annotations or {}).get(HEALING_ANNOTATION)
    if wanted is None:
        return None
    try:
        return parse_healing(wanted)
    except ValueError as error:
        problems.append(f"annotation {HEALING_ANNOTATION}: {quoted(str(error))}")
        return None


def _health_check_port(spec: ServiceSpec, problems: list[str]) -> int:
    """The port for a load balancer's health checks of this node."""
    if spec.type != "LoadBalancer":
        return 0
    if not spec.health_check_node_port:
        problems.append("externalTrafficPolicy is Local but spec.healthCheckNodePort is not set")
        return 0
    if not 0 < spec.health_check_node_port < 65536:
        port = quoted(spec.health_check_node_port)
        problems.append(f"spec.healthCheckNodePort {port} is not a port number")
        return 0
    return spec.health_check_node_port
