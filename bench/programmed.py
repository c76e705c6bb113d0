"""What is programmed, read from the kernel: no proxy is asked.

Both layouts are understood: ours, where endpoints are elements of one map, and upstream's, where
each service has a chain with a map of its own. Reading takes no lock, so it delays no proxy.
"""

import re
import socket
import struct
import time
from collections.abc import Callable, Sequence

import msgspec

from bench.changes import Expected
from bench.clusters import ENDPOINT_PORT, SERVICE_PORT, cluster_ip, endpoint_address
from kubeproxy.linux.netlink.attribute import attribute, nested, text
from kubeproxy.linux.netlink.message import attributes
from kubeproxy.linux.netlink.nfnetlink import NFGENMSG, NFPROTO_IPV4
from kubeproxy.linux.netlink.nftables import NFT_MSG_GETRULE, NFT_MSG_GETSET, NFT_MSG_GETSETELEM
from kubeproxy.linux.netlink_socket import Refused
from kubeproxy.linux.nfnetlink import Nfnetlink
from lab.namespaces import Namespace

TABLE = "kube-proxy"
FRONTENDS = "service-choices"
ENDPOINTS = "service-endpoints"
PEER_FRONTENDS = "service-ips"
UNKNOWN = -1
"""Older kernels do not say how many elements a set has."""
AT_ONCE = 20
"""So many services are looked up before the generation is read again."""

_TABLE, _SET, _ELEMENTS, _COUNT = 1, 2, 3, 20
_RULE_CHAIN = 2
_KEY, _VALUE = 1, 1
_FRONTEND = struct.Struct("!4sB3xH2x")
_SLOT = struct.Struct("=I")
_CHAIN_OF_SERVICE = re.compile(rb"service-[^\0]+")
_MAP_OF_RULE = re.compile(rb"__map\d+")


class Programmed(msgspec.Struct, frozen=True):
    """When the kernel had it all, on the monotonic clock, and after how many transactions."""

    at: float
    transactions: int


class Kernel:
    """Reads the rules of a namespace."""

    def __init__(self, namespace: Namespace) -> None:
        with namespace.entered():
            self._link = Nfnetlink()

    def close(self) -> None:
        """Give the socket back."""
        self._link.close()

    def generation(self) -> int:
        """How many transactions there were."""
        return self._link.generation()

    def count(self, name: str) -> int | None:
        """How many elements a set has, or `UNKNOWN`; None when there is no such set."""
        try:
            answer = self._link.get(NFT_MSG_GETSET, NFPROTO_IPV4, _of_table() + text(_SET, name))
        except Refused:
            return None
        found = attributes(answer.payload[NFGENMSG.size :])
        return int.from_bytes(found[_COUNT], "big") if _COUNT in found else UNKNOWN

    def frontends(self) -> int | None:
        """How many frontends there are, in either layout, or `UNKNOWN`."""
        ours = self.count(FRONTENDS)
        return self.count(PEER_FRONTENDS) if ours is None else ours

    def knows(self, expected: Expected) -> bool:
        """Whether a service has the endpoints that it should, and not those that went."""
        try:
            known = self._endpoints(expected.service, expected.count)
        except Refused:
            return False
        return all(marks(known, serial) for serial in expected.here) and not any(
            marks(known, serial) for serial in expected.gone
        )

    def _endpoints(self, service: int, count: int) -> bytes:
        """All that the kernel has of the endpoints of a service, encoded."""
        frontend = _FRONTEND.pack(socket.inet_aton(cluster_ip(service)), 6, SERVICE_PORT)
        ours = self.count(FRONTENDS) is not None
        (answer,) = self._elements(FRONTENDS if ours else PEER_FRONTENDS, [frontend])
        if ours:
            try:
                return self._list(frontend, range(1, count + 1))
            except Refused:  # an older version of ours
                return self._list(frontend, range(count))
        chain = _CHAIN_OF_SERVICE.search(answer, answer.find(frontend) + len(frontend))
        if chain is None:
            return b""
        of_chain = _of_table() + attribute(_RULE_CHAIN, chain.group() + b"\0")
        rules = self._link.dump(NFT_MSG_GETRULE, NFPROTO_IPV4, of_chain)
        maps = {name for rule in rules for name in _MAP_OF_RULE.findall(rule.payload)}
        spoken = b"".join(rule.payload for rule in rules)  # a single endpoint needs no map
        return spoken + b"".join(self._dump(name) for name in sorted(maps))

    def _list(self, frontend: bytes, slots: range) -> bytes:
        keys = [frontend + _SLOT.pack(slot) for slot in slots]
        most = self._link.max_answers
        parts = [keys[start : start + most] for start in range(0, len(keys), most)]
        return b"".join(each for part in parts for each in self._elements(ENDPOINTS, part))

    def _elements(self, name: str, keys: Sequence[bytes]) -> list[bytes]:
        listed = b"".join(nested(1, nested(_KEY, attribute(_VALUE, key))) for key in keys)
        payload = _of_table() + text(_SET, name) + nested(_ELEMENTS, listed)
        return self._link.get_each(NFT_MSG_GETSETELEM, NFPROTO_IPV4, payload)

    def _dump(self, name: bytes) -> bytes:
        payload = _of_table() + attribute(_SET, name + b"\0")
        found = self._link.dump(NFT_MSG_GETSETELEM, NFPROTO_IPV4, payload)
        return b"".join(message.payload for message in found)

    def wait(
        self,
        checks: Sequence[Callable[[], bool]],
        since: int,
        every: float,
        go_on: Callable[[], None],
    ) -> Programmed:
        """Wait until all checks have held, looking again after each transaction.

        `go_on` raises when there is nothing to wait for any more.
        """
        pending = list(reversed(checks))
        generation, at, fresh = since, time.monotonic(), True
        while pending:
            if (now := self.generation()) != generation:
                generation, at, fresh = now, time.monotonic(), True
            elif not fresh:
                go_on()
                time.sleep(every)
            if fresh:
                fresh = _check_some(pending)
        if self.generation() != generation:  # during the last checks
            generation, at = self.generation(), time.monotonic()
        return Programmed(at, generation - since)


def _check_some(pending: list[Callable[[], bool]]) -> bool:
    """Take away what holds, up to so many; whether it is worth going on at once."""
    for _ in range(min(AT_ONCE, len(pending))):
        if not pending[-1]():
            return False
        pending.pop()
    return True


def marks(known: bytes, serial: int) -> bool:
    """Whether what is known of a service names an endpoint.

    It stands in a map, as address and port; in a rule, as a value of its own; or, where endpoints
    have chains, in a chain's name.
    """
    address = endpoint_address(serial)
    packed = socket.inet_aton(address)
    return (
        packed + ENDPOINT_PORT.to_bytes(2, "big") in known
        or attribute(_VALUE, packed) in known
        or f"__{address}/{ENDPOINT_PORT}".encode() in known
    )


def _of_table() -> bytes:
    return text(_TABLE, TABLE)
