import pytest

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.counts import Count
from kubeproxy.dataplane.ipvs.counts import counts
from kubeproxy.dataplane.ipvs.plan import Setup, plan
from kubeproxy.dataplane.ipvs.render import describe_some
from kubeproxy.linux.netlink.ipvs import ServerKey
from kubeproxy.table.entries import Entry, Frontend, FrontendKind
from world import endpoint_slice, everywhere, table_of

(ENTRY,) = table_of(everywhere(), endpoint_slice("L1 R1")).entries.values()
CLUSTER_IP = Frontend(FrontendKind.CLUSTER_IP, "10.112.0.21", 80)
VIP = Frontend(FrontendKind.LOAD_BALANCER, "203.0.113.7", 80)
EXTERNAL = Frontend(FrontendKind.EXTERNAL_IP, "198.18.0.5", 80)
NODE_PORT = Frontend(FrontendKind.NODE_PORT, "", 31080)
NODE = ("198.51.100.10", "198.51.100.77")


def key(address: str, port: int = 80) -> ServerKey:
    return ServerKey(Protocol.TCP, address, port)


def test_every_frontend_has_its_servers() -> None:
    connections = {
        key("10.112.0.21"): 4,
        key("203.0.113.7"): 3,
        key(NODE[0], 31080): 2,
        key(NODE[1], 31080): 1,
        key("10.112.0.99"): 50,
    }
    expected = {
        Count(CLUSTER_IP, key("10.112.0.21"), 4),
        Count(VIP, key("203.0.113.7"), 3),
        Count(EXTERNAL, key("198.18.0.5"), None),
        Count(NODE_PORT, key(NODE[0], 31080), 2),
        Count(NODE_PORT, key(NODE[1], 31080), 1),
    }
    ((name, found),) = counts([ENTRY], NODE, connections)
    assert ENTRY.name == name
    assert (expected, 5) == (set(found), len(found))


def test_an_address_of_two_kinds_is_counted_once() -> None:
    entry = Entry(ENTRY.name, (CLUSTER_IP, CLUSTER_IP._replace(kind=FrontendKind.EXTERNAL_IP)))
    connections = {key("10.112.0.21"): 4}
    assert [(entry.name, [Count(CLUSTER_IP, key("10.112.0.21"), 4)])] == list(
        counts([entry], (), connections)
    )


@pytest.mark.parametrize("names", [(), NODE[:1]], ids=["without-node-ports", "with-node-ports"])
def test_what_a_service_port_has_in_the_kernel(names: tuple[str, ...]) -> None:
    text = describe_some([plan(ENTRY, Setup(node_port_addresses=names))], Family.IPV4)
    assert "-A -t 10.112.0.21:80 -s rr\n-a -t 10.112.0.21:80 -r 10.64.3.11:8080 -m -w 1\n" in text
    assert "add KUBE-CLUSTER-IP 10.112.0.21,tcp:80\n" in text
    assert ("-A -t 198.51.100.10:31080 -s rr\n" in text) == bool(names)


def test_nothing() -> None:
    assert describe_some([], Family.IPV4) == ""
