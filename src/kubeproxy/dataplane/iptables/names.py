"""The names of chains. Those of a service are made from a hash, because names are short."""

from base64 import b32encode
from hashlib import sha256
from typing import NamedTuple

from kubeproxy.table.entries import ServicePortName

SERVICES = "KUBE-SERVICES"
EXTERNAL_SERVICES = "KUBE-EXTERNAL-SERVICES"
NODE_PORTS = "KUBE-NODEPORTS"
POSTROUTING = "KUBE-POSTROUTING"
FORWARD = "KUBE-FORWARD"
PROXY_FIREWALL = "KUBE-PROXY-FIREWALL"
FIREWALL = "KUBE-FIREWALL"
MARK_MASQ = "KUBE-MARK-MASQ"
CANARY = "KUBE-PROXY-CANARY"

PREFIXES = ("KUBE-SVC-", "KUBE-SVL-", "KUBE-EXT-", "KUBE-FW-", "KUBE-SEP-")

# 16 characters of base32 are 10 bytes.
_HASHED = 10


class ServiceChains(NamedTuple):
    """The chains of a service port; those of its endpoints come on top.

    `cluster` and `local` choose an endpoint under either traffic policy, `external` is where
    external addresses lead, and `firewall` where those of load balancers do that are not for all.
    """

    cluster: str
    local: str
    external: str
    firewall: str


def service_chains(name: ServicePortName) -> ServiceChains:
    """The names of a service port's chains."""
    hashed = _hash(_seed(name))
    return ServiceChains(
        f"KUBE-SVC-{hashed}", f"KUBE-SVL-{hashed}", f"KUBE-EXT-{hashed}", f"KUBE-FW-{hashed}"
    )


def endpoint_chain(name: ServicePortName, endpoint: str) -> str:
    """The name of the chain of one endpoint, given as `address:port`."""
    return f"KUBE-SEP-{_hash(_seed(name) + endpoint)}"


def is_service_chain(chain: str) -> bool:
    """Whether the chain belongs to a service, of this proxy or of another that ran here."""
    return chain.startswith(PREFIXES)


def _seed(name: ServicePortName) -> str:
    return f"{name}{name.protocol.name.lower()}"


def _hash(seed: str) -> str:
    return b32encode(sha256(seed.encode()).digest()[:_HASHED]).decode()
