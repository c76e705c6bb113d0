"""The network of an outage: a node in the middle, and a pod, the outside and all endpoints around.

The endpoints lie in one namespace: each is an address. One that is lost gets no packet any more,
and sends none; nothing tells its clients.
"""

from collections.abc import Iterable

from bench.clusters import NODE_ADDRESS
from lab.namespaces import Namespace

_POD = "10.255.255.2"
_OUTSIDE = "198.51.100.2"
_WORKERS = "192.0.2.2"
_ENDPOINTS = "10.128.0.0/10"
_NODE = (
    "link set lo up",
    "link add name pod type veth peer name eth0 netns pod",
    "link add name eth0 type veth peer name eth0 netns outside",
    "link add name workers type veth peer name eth0 netns workers",
    f"address add {NODE_ADDRESS}/32 dev eth0",
    "link set pod up",
    "link set eth0 up",
    "link set workers up",
    f"route add {_POD} dev pod",
    f"route add {_WORKERS} dev workers",
    f"route add {_ENDPOINTS} via {_WORKERS} dev workers",
    f"route add {_OUTSIDE} dev eth0",
    f"route add default via {_OUTSIDE} dev eth0",
)
_LOST = """
table ip lost {
    set pods { type ipv4_addr; }
    chain in { type filter hook prerouting priority raw; ip daddr @pods drop; }
    chain out { type filter hook output priority raw; ip saddr @pods drop; }
}
"""


class Network:
    """Its namespaces."""

    def __init__(self) -> None:
        self.node, self.pod, self.outside, self.workers = map(
            Namespace, ("node", "pod", "outside", "workers")
        )
        _batch(self.node, _NODE)
        _batch(self.pod, _end(_POD))
        _batch(self.outside, _end(_OUTSIDE))
        _batch(self.workers, (*_end(_WORKERS), f"route add local {_ENDPOINTS} dev lo"))
        self.node.sysctl((("ipv4/ip_forward", "1"),))
        self.workers.run(["nft", "-f", "-"], stdin=_LOST)

    def close(self) -> None:
        for namespace in (self.node, self.pod, self.outside, self.workers):
            namespace.close()

    def lose(self, addresses: Iterable[str]) -> None:
        """Endpoints cannot be reached from now on."""
        pods = ", ".join(addresses)
        self.workers.run(["nft", f"add element ip lost pods {{ {pods} }}"])

    def delete_tables(self) -> None:
        """All tables of nftables on the node, as another program might."""
        tables = self.node.run(["nft", "list", "tables"]).splitlines()
        self.node.run(["nft", "-f", "-"], stdin="".join(f"delete {each}\n" for each in tables))


def _end(address: str) -> tuple[str, ...]:
    """The far end of a wire, to which the node is the way to everywhere."""
    return (
        "link set lo up",
        "link set eth0 up",
        f"address add {address}/32 dev eth0",
        f"route add {NODE_ADDRESS} dev eth0",
        f"route add default via {NODE_ADDRESS} dev eth0",
    )


def _batch(namespace: Namespace, lines: Iterable[str]) -> None:
    namespace.run(["ip", "-batch", "-"], stdin="\n".join(lines))
