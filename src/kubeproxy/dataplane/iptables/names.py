"""The names of chains. Those of a service are hashes, because the kernel limits their length."""

from hashlib import sha256
from typing import NamedTuple

from kubeproxy.table.entries import ServicePortName
from kubeproxy.table.policy import Scope

CANARY = "KUBE-PROXY-CANARY"

PREFIXES = ("KUBE-SVC-", "KUBE-SVL-", "KUBE-EXT-", "KUBE-FW-", "KUBE-SEP-")

# 16 characters of base32 are 10 bytes, of which two characters at a time are looked up.
_HASHED = 10
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_SHIFTS = range(70, -1, -10)


class ServiceChains(NamedTuple):
    """The chains of a service port; each of its endpoints has one more.

    `cluster` and `local` choose an endpoint of a scope, `external` is where external addresses
    lead, and `firewall` where those of load balancers with source ranges lead.
    """

    cluster: str
    local: str
    external: str
    firewall: str

    def choosing(self, scope: Scope) -> str:
        """The chain that chooses an endpoint of the scope."""
        return self.local if scope is Scope.LOCAL else self.cluster


def seed(name: ServicePortName) -> str:
    """The text that the hashes of a service port's chains are made from."""
    return f"{name}{name.protocol.name.lower()}"


def service_chains(name: ServicePortName) -> ServiceChains:
    """The names of a service port's chains."""
    hashed = _hash(seed(name))
    return ServiceChains(
        f"KUBE-SVC-{hashed}", f"KUBE-SVL-{hashed}", f"KUBE-EXT-{hashed}", f"KUBE-FW-{hashed}"
    )


def endpoint_chain(seed_: str, endpoint: str) -> str:
    """The name of the chain of one endpoint, given as `address:port`, of the seed's service."""
    return f"KUBE-SEP-{_hash(seed_ + endpoint)}"


def is_service_chain(chain: str) -> bool:
    """Whether the chain belongs to a service, of this proxy or of another that ran here."""
    return chain.startswith(PREFIXES)


def _hash(text: str) -> str:
    """The first 16 characters of the SHA-256 in base32.

    `base64.b32encode` gives the same and takes five times as long, half of a full sync.
    """
    number = int.from_bytes(sha256(text.encode()).digest()[:_HASHED])
    return "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])
