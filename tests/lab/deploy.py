"""Services with their slices, in few words and dual-stack; and the mall, which has one of each."""

from collections.abc import Iterable, Mapping

import msgspec

import world
from kubeproxy.base.inet import Protocol
from lab.documents import dual_stack
from lab.plan import HAS_SCTP, HOSTS, cluster_ip, external_ip, vip
from world import Document

TCP, UDP, SCTP = Protocol


class Port(msgspec.Struct, frozen=True):
    """A port of a Service, and that of its endpoints."""

    number: int = 80
    target: int = 8080
    node_port: int = 0
    protocol: Protocol = TCP

    @property
    def name(self) -> str:
        return f"{self.protocol.name.lower()}-{self.number}"


class Address(msgspec.Struct, frozen=True):
    """The addresses of a Service: its number in the plan, and which kinds it has."""

    number: int
    balanced: bool = False
    external: bool = False


def endpoint(text: str) -> Document:
    """As `world.endpoint`; also `H`, with the host's network, and `~L1`, whose node is unknown."""
    nameless = text.startswith("~")
    name = text.removeprefix("~")
    if name == "H":
        return {"addresses": [HOSTS["H"].ipv4], "nodeName": world.NODE_NAME}
    found = world.endpoint(name)
    return {key: value for key, value in found.items() if not (nameless and key == "nodeName")}


def deploy(
    name: str,
    address: Address,
    endpoints: str,
    ports: Iterable[Port] = (Port(),),
    spec: Mapping[str, object] | None = None,
) -> list[Document]:
    """A Service and its slices in both families."""
    ports = tuple(ports)
    return dual_stack([_service(name, address, ports, spec or {}), _slice(name, endpoints, ports)])


def _service(
    name: str, address: Address, ports: tuple[Port, ...], spec: Mapping[str, object]
) -> Document:
    exposed = address.balanced or any(port.node_port for port in ports)
    return {
        "metadata": {"namespace": "mall", "name": name},
        "spec": {
            "type": "LoadBalancer" if exposed else "ClusterIP",
            "clusterIP": cluster_ip(address.number),
            "externalIPs": [external_ip(address.number)] if address.external else [],
            "ports": [
                {
                    "name": port.name,
                    "protocol": port.protocol.name,
                    "port": port.number,
                    "nodePort": port.node_port,
                }
                for port in ports
            ],
            **spec,
        },
        "status": {
            "loadBalancer": {"ingress": [{"ip": vip(address.number)}] if address.balanced else []}
        },
    }


def _slice(name: str, endpoints: str, ports: tuple[Port, ...]) -> Document:
    return {
        "metadata": {
            "namespace": "mall",
            "name": f"{name}-1",
            "labels": {"kubernetes.io/service-name": name},
        },
        "addressType": "IPv4",
        "ports": [
            {"name": port.name, "protocol": port.protocol.name, "port": port.target}
            for port in ports
        ],
        "endpoints": [endpoint(text) for text in endpoints.split()],
    }


ETP_LOCAL: Document = {"externalTrafficPolicy": "Local"}
ITP_LOCAL: Document = {"internalTrafficPolicy": "Local"}
RANGES: Document = {"loadBalancerSourceRanges": ["198.51.100.0/24", " 192.0.2.0/25"]}
NARROW_RANGES: Document = {"loadBalancerSourceRanges": ["192.0.2.0/25"]}


def affinity(seconds: int = 10800) -> Document:
    """The fields of a Service with session affinity."""
    return {
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": seconds}},
    }


def everywhere(number: int) -> Address:
    """All kinds of addresses."""
    return Address(number, balanced=True, external=True)


def mall() -> list[Document]:
    """One service of each kind, side by side.

    Inner and nameless have endpoint ports of their own: a hairpin is known by address and port,
    whichever service they belong to.
    """
    dns = (Port(53, 5353), Port(53, 53, protocol=UDP), Port(80, 8081))
    node_ports = (Port(node_port=31080), Port(53, 53, 31081, UDP))
    return [
        *deploy("cart", Address(21), "L1 R1"),
        *deploy("dns", Address(22), "L1 L2", dns),
        *deploy("front", everywhere(23), "L1 R1", node_ports),
        *deploy("near", everywhere(24), "L1 R1", [Port(node_port=31082)], ETP_LOCAL),
        *deploy("far", everywhere(25), "R1 R2", [Port(node_port=31083)], ETP_LOCAL),
        *deploy("inner", Address(26), "L1 L2 R1", [Port(80, 53)], ITP_LOCAL),
        *deploy("inner-far", Address(27), "R1", spec=ITP_LOCAL),
        *deploy("closed", everywhere(28), "", [Port(node_port=31084)]),
        *deploy("bank", everywhere(29), "L1 R2", [Port(node_port=31085)], RANGES),
        *deploy("vault", everywhere(30), "", [Port(node_port=31086)], NARROW_RANGES),
        *deploy("host", everywhere(31), "H R1", [Port(node_port=31087)]),
        *deploy("host-near", everywhere(32), "H R1", [Port(node_port=31088)], ETP_LOCAL),
        *deploy("sticky", everywhere(33), "L1 L2 R1", [Port(node_port=31089)], affinity()),
        *deploy("zoned", Address(34), "L1@z-east R1@z-west R2@z-east"),
        *deploy("ending", everywhere(35), "L1:draining L2:stopped R1:draining", spec=ETP_LOCAL),
        *deploy("nameless", Address(36), "~L1 R1", [Port(80, 8443)]),
        *(phones() if HAS_SCTP else []),
    ]


def phones() -> list[Document]:
    """Services of SCTP, which not every kernel speaks."""
    ports = [Port(81, 8081, 31090, SCTP)]
    return [
        *deploy("exchange", everywhere(37), "L1 R1", ports, RANGES),
        *deploy("extension", everywhere(38), "L2 R2", [Port(81, 8081, 31091, SCTP)], ETP_LOCAL),
    ]
