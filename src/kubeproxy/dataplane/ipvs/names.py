"""The sets of ipvs mode: their names, types and comments."""

from enum import Enum

from kubeproxy.base.inet import Family


class IpSet(Enum):
    """The sets, in upstream's order; every one exists in each family, in use or not.

    The value is the comment of rules that use the set.
    """

    LOOP_BACK = "Kubernetes endpoints dst ip:port, source ip for solving hairpin purpose"
    CLUSTER_IP = "Kubernetes service cluster ip + port for masquerade purpose"
    EXTERNAL_IP = "Kubernetes service external ip + port for masquerade and filter purpose"
    EXTERNAL_IP_LOCAL = "Kubernetes service external ip + port with externalTrafficPolicy=local"
    LOAD_BALANCER = "Kubernetes service lb portal"
    LOAD_BALANCER_FW = (
        "Kubernetes service load balancer ip + port for load balancer with sourceRange"
    )
    LOAD_BALANCER_LOCAL = (
        "Kubernetes service load balancer ip + port with externalTrafficPolicy=local"
    )
    LOAD_BALANCER_SOURCE_IP = (
        "Kubernetes service load balancer ip + port + source IP for packet filter purpose"
    )
    LOAD_BALANCER_SOURCE_CIDR = (
        "Kubernetes service load balancer ip + port + source cidr for packet filter purpose"
    )
    NODE_PORT_TCP = "Kubernetes nodeport TCP port for masquerade purpose"
    NODE_PORT_LOCAL_TCP = "Kubernetes nodeport TCP port with externalTrafficPolicy=local"
    NODE_PORT_UDP = "Kubernetes nodeport UDP port for masquerade purpose"
    NODE_PORT_LOCAL_UDP = "Kubernetes nodeport UDP port with externalTrafficPolicy=local"
    NODE_PORT_SCTP_HASH = (
        "Kubernetes nodeport SCTP port for masquerade purpose with type 'hash ip:port'"
    )
    NODE_PORT_LOCAL_SCTP_HASH = (
        "Kubernetes nodeport SCTP port with externalTrafficPolicy=local with type 'hash ip:port'"
    )
    HEALTH_CHECK_NODE_PORT = "Kubernetes health check node port"
    IPVS_IPS = "Addresses on the ipvs interface"

    @property
    def type(self) -> str:
        """The set's type, as `ipset` spells it."""
        return _OTHER_TYPES.get(self, "hash:ip,port")


_PORTS = "bitmap:port"
_OTHER_TYPES = {
    IpSet.LOOP_BACK: "hash:ip,port,ip",
    IpSet.LOAD_BALANCER_SOURCE_IP: "hash:ip,port,ip",
    IpSet.LOAD_BALANCER_SOURCE_CIDR: "hash:ip,port,net",
    IpSet.NODE_PORT_TCP: _PORTS,
    IpSet.NODE_PORT_LOCAL_TCP: _PORTS,
    IpSet.NODE_PORT_UDP: _PORTS,
    IpSet.NODE_PORT_LOCAL_UDP: _PORTS,
    IpSet.HEALTH_CHECK_NODE_PORT: _PORTS,
    IpSet.IPVS_IPS: "hash:ip",
}
_LONGEST_NAME = 31
_PREFIX = {Family.IPV4: "KUBE-", Family.IPV6: "KUBE-6-"}


def names_of(stem: str) -> dict[Family, str]:
    """The names of a set in the families, cut where the kernel's limit is."""
    return {family: f"{prefix}{stem}"[:_LONGEST_NAME] for family, prefix in _PREFIX.items()}


_NAMES = {set_: names_of(set_.name.replace("_", "-")) for set_ in IpSet}


def set_name(set_: IpSet, family: Family) -> str:
    """The name of a set in a family."""
    return _NAMES[set_][family]


def set_options(set_: IpSet, family: Family) -> str:
    """The options with which the set is created."""
    if set_.type == _PORTS:
        return f"{_PORTS} range 0-65535"
    inet = "inet" if family is Family.IPV4 else "inet6"
    return f"{set_.type} family {inet} hashsize 1024 maxelem 65536"
