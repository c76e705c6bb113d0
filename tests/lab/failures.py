"""Endpoints that fail: what their kernel says to a SYN, if anything, and how many came."""

import contextlib
import json
from collections.abc import Iterator, Mapping

from kubeproxy.base.inet import Family
from lab.namespaces import Namespace
from lab.network import Network
from lab.plan import HOSTS

REFUSES = "reject with tcp reset"
IS_SILENT = "drop"
UNREACHABLE = {
    "port": "reject with icmpx type port-unreachable",
    "host": "reject with icmpx type host-unreachable",
    "prohibited": "reject with icmpx type admin-prohibited",
    "no-route": "reject with icmpx type no-route",
}
"""Errors of ICMP, by what they say."""


class Failure:
    """An endpoint that fails on one port, until `end`; connections that are open go on."""

    def __init__(self, namespace: Namespace, port: int, verdict: str) -> None:
        self._namespace = namespace
        self._table = f"failing-{port}"
        self._counted: int | None = None
        script = f"""table inet {self._table} {{
            chain input {{
                type filter hook input priority 0;
                tcp dport {port} tcp flags & (syn | ack) == syn counter {verdict}
            }}
        }}"""
        namespace.run(["nft", "-f", "-"], stdin=script)

    @property
    def count(self) -> int:
        """How many SYNs came so far, or until the end."""
        if self._counted is not None:
            return self._counted
        listed = self._namespace.run(["nft", "-j", "list", "table", "inet", self._table])
        (rule,) = (each["rule"] for each in json.loads(listed)["nftables"] if "rule" in each)
        (counter,) = (each["counter"] for each in rule["expr"] if "counter" in each)
        return int(counter["packets"])

    def end(self) -> None:
        """It answers again."""
        self._counted = self.count
        self._namespace.run(["nft", "delete", "table", "inet", self._table])


@contextlib.contextmanager
def failing(
    network: Network, verdict: str, *names: str, port: int = 8080
) -> Iterator[Mapping[str, Failure]]:
    """Inside, these endpoints do so on a port."""
    with contextlib.ExitStack() as stack:
        made = {}
        for name in names:
            made[name] = Failure(network.of(HOSTS[name]), port, verdict)
            stack.callback(made[name].end)
        yield made


@contextlib.contextmanager
def without_route(network: Network, kind: str, name: str, family: Family) -> Iterator[None]:
    """Inside, the node's route to the host is one of `unreachable` or `prohibit`."""
    host = HOSTS[name]
    address = host.address(family)
    usual, other = [address, "dev", host.interface], [kind, address]
    network.node.run(["ip", "route", "del", *usual])
    network.node.run(["ip", "route", "add", *other])
    try:
        yield
    finally:
        network.node.run(["ip", "route", "del", *other])
        network.node.run(["ip", "route", "add", *usual])
