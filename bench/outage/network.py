"""The network of an outage: a node in the middle, and a pod, the outside and all endpoints around.

Everybody has an address of each family.

The endpoints lie in one namespace: each is an address. One that is lost gets no packet any more,
and sends none; nothing tells its clients.
"""

from collections.abc import Iterable

from bench.clusters import NODE_ADDRESS
from lab.namespaces import Namespace

NODE_ADDRESS_6 = "2001:db8::1"
ENDPOINTS_6 = "fd00:1::/32"
_POD, _POD_6 = "10.255.255.2", "fd00:2::2"
_OUTSIDE, _OUTSIDE_6 = "198.51.100.2", "2001:db8:1::2"
_WORKERS, _WORKERS_6 = "192.0.2.2", "2001:db8:2::2"
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
    # A neighbour is only told of an address that is on the interface where it asks.
    f"address add {NODE_ADDRESS_6}/128 dev eth0",
    f"address add {NODE_ADDRESS_6}/128 dev pod",
    f"address add {NODE_ADDRESS_6}/128 dev workers",
    f"route add {_POD_6} dev pod",
    f"route add {_WORKERS_6} dev workers",
    f"route add {ENDPOINTS_6} via {_WORKERS_6} dev workers",
    f"route add {_OUTSIDE_6} dev eth0",
    f"route add ::/0 via {_OUTSIDE_6} dev eth0",
)
_LOST = """
table ip lost {
    set pods { type ipv4_addr; }
    chain in { type filter hook prerouting priority raw; ip daddr @pods drop; }
    chain out { type filter hook output priority raw; ip saddr @pods drop; }
}
table ip6 lost {
    set pods { type ipv6_addr; }
    chain in { type filter hook prerouting priority raw; ip6 daddr @pods drop; }
    chain out { type filter hook output priority raw; ip6 saddr @pods drop; }
}
"""
_NO_PROBES = (("ipv6/conf/default/accept_dad", "0"), ("ipv6/conf/all/accept_dad", "0"))
"""An address can be used at once."""


class Network:
    """Its namespaces."""

    def __init__(self) -> None:
        self.node, self.pod, self.outside, self.workers = map(
            Namespace, ("node", "pod", "outside", "workers")
        )
        for namespace in (self.node, self.pod, self.outside, self.workers):
            namespace.sysctl(_NO_PROBES)
        _batch(self.node, _NODE)
        _batch(self.pod, _end(_POD, _POD_6))
        _batch(self.outside, _end(_OUTSIDE, _OUTSIDE_6))
        local = (
            f"route add local {_ENDPOINTS} dev lo",
            f"route add local {ENDPOINTS_6} dev lo",
        )
        _batch(self.workers, (*_end(_WORKERS, _WORKERS_6), *local))
        self.workers.sysctl((("ipv6/ip_nonlocal_bind", "1"),))
        self.node.sysctl((("ipv4/ip_forward", "1"), ("ipv6/conf/all/forwarding", "1")))
        self.workers.run(["nft", "-f", "-"], stdin=_LOST)

    def close(self) -> None:
        for namespace in (self.node, self.pod, self.outside, self.workers):
            namespace.close()

    def lose(self, addresses: Iterable[str]) -> None:
        """Endpoints cannot be reached from now on."""
        self._change("add", addresses)

    def find(self, addresses: Iterable[str]) -> None:
        """They can be reached again."""
        self._change("delete", addresses)

    def _change(self, verb: str, addresses: Iterable[str]) -> None:
        lines = [
            f"{verb} element {'ip6' if ':' in each else 'ip'} lost pods {{ {each} }}\n"
            for each in addresses
        ]
        self.workers.run(["nft", "-f", "-"], stdin="".join(lines))

    def delete_tables(self) -> None:
        """All tables of nftables on the node, as another program might."""
        tables = self.node.run(["nft", "list", "tables"]).splitlines()
        self.node.run(["nft", "-f", "-"], stdin="".join(f"delete {each}\n" for each in tables))


def _end(address: str, address_6: str) -> tuple[str, ...]:
    """The far end of a wire, to which the node is the way to everywhere."""
    return (
        "link set lo up",
        "link set eth0 up",
        f"address add {address}/32 dev eth0",
        f"route add {NODE_ADDRESS} dev eth0",
        f"route add default via {NODE_ADDRESS} dev eth0",
        f"address add {address_6}/128 dev eth0",
        f"route add {NODE_ADDRESS_6} dev eth0",
        f"route add ::/0 via {NODE_ADDRESS_6} dev eth0",
    )


def _batch(namespace: Namespace, lines: Iterable[str]) -> None:
    namespace.run(["ip", "-batch", "-"], stdin="\n".join(lines))
