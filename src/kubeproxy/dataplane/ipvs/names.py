"""The names of ipvs mode: its sets, with their types and comments, and its chains."""

from enum import Enum
from typing import NamedTuple

from kubeproxy.base.inet import Family

MOST_MEMBERS = 65536

SERVICES = "KUBE-SERVICES"
POSTROUTING = "KUBE-POSTROUTING"
NODE_PORT = "KUBE-NODE-PORT"
LOAD_BALANCER = "KUBE-LOAD-BALANCER"
MARK_MASQ = "KUBE-MARK-MASQ"
FORWARD = "KUBE-FORWARD"
PROXY_FIREWALL = "KUBE-PROXY-FIREWALL"
RANGES_FIREWALL = "KUBE-SOURCE-RANGES-FIREWALL"
FILTER = "KUBE-IPVS-FILTER"
OUT_FILTER = "KUBE-IPVS-OUT-FILTER"

_LONGEST_SET_NAME = 31
_PORTS = "bitmap:port"


class _Kind(NamedTuple):
    """The name, the type and the comment of a set."""

    stem: str
    type: str
    comment: str


class Set(Enum):
    """The sets, in upstream's order; every one exists in each family, in use or not."""

    LOOP_BACK = _Kind(
        "LOOP-BACK",
        "hash:ip,port,ip",
        "Kubernetes endpoints dst ip:port, source ip for solving hairpin purpose",
    )
    CLUSTER_IP = _Kind(
        "CLUSTER-IP",
        "hash:ip,port",
        "Kubernetes service cluster ip + port for masquerade purpose",
    )
    EXTERNAL_IP = _Kind(
        "EXTERNAL-IP",
        "hash:ip,port",
        "Kubernetes service external ip + port for masquerade and filter purpose",
    )
    EXTERNAL_IP_LOCAL = _Kind(
        "EXTERNAL-IP-LOCAL",
        "hash:ip,port",
        "Kubernetes service external ip + port with externalTrafficPolicy=local",
    )
    LOAD_BALANCER = _Kind("LOAD-BALANCER", "hash:ip,port", "Kubernetes service lb portal")
    LOAD_BALANCER_FW = _Kind(
        "LOAD-BALANCER-FW",
        "hash:ip,port",
        "Kubernetes service load balancer ip + port for load balancer with sourceRange",
    )
    LOAD_BALANCER_LOCAL = _Kind(
        "LOAD-BALANCER-LOCAL",
        "hash:ip,port",
        "Kubernetes service load balancer ip + port with externalTrafficPolicy=local",
    )
    LOAD_BALANCER_SOURCE_IP = _Kind(
        "LOAD-BALANCER-SOURCE-IP",
        "hash:ip,port,ip",
        "Kubernetes service load balancer ip + port + source IP for packet filter purpose",
    )
    LOAD_BALANCER_SOURCE_CIDR = _Kind(
        "LOAD-BALANCER-SOURCE-CIDR",
        "hash:ip,port,net",
        "Kubernetes service load balancer ip + port + source cidr for packet filter purpose",
    )
    NODE_PORT_TCP = _Kind(
        "NODE-PORT-TCP", _PORTS, "Kubernetes nodeport TCP port for masquerade purpose"
    )
    NODE_PORT_LOCAL_TCP = _Kind(
        "NODE-PORT-LOCAL-TCP",
        _PORTS,
        "Kubernetes nodeport TCP port with externalTrafficPolicy=local",
    )
    NODE_PORT_UDP = _Kind(
        "NODE-PORT-UDP", _PORTS, "Kubernetes nodeport UDP port for masquerade purpose"
    )
    NODE_PORT_LOCAL_UDP = _Kind(
        "NODE-PORT-LOCAL-UDP",
        _PORTS,
        "Kubernetes nodeport UDP port with externalTrafficPolicy=local",
    )
    NODE_PORT_SCTP = _Kind(
        "NODE-PORT-SCTP-HASH",
        "hash:ip,port",
        "Kubernetes nodeport SCTP port for masquerade purpose with type 'hash ip:port'",
    )
    NODE_PORT_LOCAL_SCTP = _Kind(
        "NODE-PORT-LOCAL-SCTP-HASH",
        "hash:ip,port",
        "Kubernetes nodeport SCTP port with externalTrafficPolicy=local with type 'hash ip:port'",
    )
    HEALTH_CHECK_NODE_PORT = _Kind(
        "HEALTH-CHECK-NODE-PORT", _PORTS, "Kubernetes health check node port"
    )
    IPVS_IPS = _Kind("IPVS-IPS", "hash:ip", "Addresses on the ipvs interface")

    @property
    def type(self) -> str:
        """The set's type, as `ipset` spells it."""
        return self.value.type

    @property
    def comment(self) -> str:
        """The comment of rules that use the set."""
        return self.value.comment


_PREFIX = {Family.IPV4: "KUBE-", Family.IPV6: "KUBE-6-"}
_NAMES = {
    (set_, family): f"{prefix}{set_.value.stem}"[:_LONGEST_SET_NAME]
    for set_ in Set
    for family, prefix in _PREFIX.items()
}


def set_name(set_: Set, family: Family) -> str:
    """The name of a set in a family, cut where the kernel's limit is."""
    return _NAMES[set_, family]


def set_options(set_: Set, family: Family) -> str:
    """The options with which the set is created."""
    if set_.type == _PORTS:
        return f"{_PORTS} range 0-65535"
    inet = "inet" if family is Family.IPV4 else "inet6"
    return f"{set_.type} family {inet} hashsize 1024 maxelem {MOST_MEMBERS}"
