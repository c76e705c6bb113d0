"""A service port as the daemon describes it, and the events of its connections."""

from kubeproxy.base.inet import Family, Protocol, pack
from kubeproxy.explain.destination import split_port
from kubeproxy.linux.netlink.attribute import attribute, nested
from kubeproxy.linux.netlink.conntrack import IPCTNL_MSG_CT_NEW
from kubeproxy.linux.netlink.message import Message, encode
from kubeproxy.serve.status.wire import EndpointDetail, FrontendDetail, PortDetail, ServiceDetail
from kubeproxy.tools.trace.connections import Index, Watched, index, watched_ports

OWN = ("127.0.0.1", "198.51.100.10", "2001:db8:aa::10")
FRONTENDS = (
    FrontendDetail("cluster-ip", "10.112.0.21", 80),
    FrontendDetail("load-balancer", "203.0.113.7", 80),
    FrontendDetail("external-ip", "198.18.0.5", 80),
    FrontendDetail("node-port", "", 31080),
)


def endpoint(address: str, node: str, *, used: bool = True) -> EndpointDetail:
    return EndpointDetail(
        address=address,
        port=8080,
        node=node,
        on_this_node=node == "kestrel",
        ready=used,
        serving=used,
        terminating=False,
        used=used,
    )


HTTP = PortDetail(
    name="http",
    protocol="TCP",
    ip_family="IPv4",
    frontends=FRONTENDS,
    endpoints=(
        endpoint("10.64.3.11", "kestrel"),
        endpoint("10.65.7.21", "heron"),
        endpoint("10.66.9.31", "", used=False),
    ),
    internal_traffic_policy="Cluster",
)
HTTP_IPV6 = PortDetail(
    name="http",
    protocol="TCP",
    ip_family="IPv6",
    frontends=(
        FrontendDetail("cluster-ip", "fd12::21", 80),
        FrontendDetail("node-port", "", 31080),
    ),
    endpoints=(endpoint("fd40::11", "kestrel"),),
    internal_traffic_policy="Cluster",
)
DNS = PortDetail(
    name="",
    protocol="UDP",
    ip_family="IPv4",
    frontends=(FrontendDetail("cluster-ip", "10.112.0.21", 53),),
    endpoints=(),
    internal_traffic_policy="Cluster",
)


def service(*ports: PortDetail) -> ServiceDetail:
    return ServiceDetail("nftables", "kestrel", "shop", "web", False, ports)


WATCHED: list[Watched] = watched_ports(service(HTTP, HTTP_IPV6, DNS))
KNOWN: Index = index(WATCHED, OWN)


def event(
    client: str, to: str, responder: str, seen: str = "", protocol: Protocol = Protocol.TCP
) -> bytes:
    """The kernel's event of a new connection; ends are `address:port`."""
    directions = _direction(1, client, to, protocol) + _direction(
        2, responder, seen or client, protocol
    )
    family = Family.IPV6 if to.startswith("[") else Family.IPV4
    head = bytes([2 if family is Family.IPV4 else 10, 0, 0, 0])
    return encode(Message(IPCTNL_MSG_CT_NEW, 0x600, 0, head + directions))


def _direction(kind: int, source: str, destination: str, protocol: Protocol) -> bytes:
    (source_ip, source_port), (ip, port) = _end(source), _end(destination)
    at = (1, 2) if len(ip) == 4 else (3, 4)
    return nested(
        kind | 0x8000,
        nested(1 | 0x8000, attribute(at[0], source_ip), attribute(at[1], ip)),
        nested(
            2 | 0x8000,
            attribute(1, bytes([protocol])),
            attribute(2, source_port),
            attribute(3, port),
        ),
    )


def _end(text: str) -> tuple[bytes, bytes]:
    host, port = split_port(text)
    return pack(host.strip("[]")), int(port).to_bytes(2, "big")
