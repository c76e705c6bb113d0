"""What one service port wants in the kernel."""

import msgspec
import pytest

from kubeproxy.base.inet import Protocol
from kubeproxy.dataplane.contract import Count
from kubeproxy.dataplane.ipvs.names import IpSet
from kubeproxy.dataplane.ipvs.plan import Part, PlanSetup, counts, plan, setup_of
from kubeproxy.linux.netlink.ipvs import PERSISTENT, SOURCE_PORT, RealKey, ServerKey, VirtualServer
from kubeproxy.table.entries import Backend, Entry, Frontend, FrontendKind, ServicePortName
from kubeproxy.table.policy import Policy
from world import Mode, node, prefix

CIP, VIP, EXT, NODE = "10.112.0.21", "203.0.113.7", "198.18.0.5", "198.51.100.10"
LOCAL = Backend("10.64.3.11", 8080, local=True)
REMOTE = Backend("10.65.7.21", 8080)
FRONTENDS = (
    Frontend(FrontendKind.CLUSTER_IP, CIP, 80),
    Frontend(FrontendKind.LOAD_BALANCER, VIP, 80),
    Frontend(FrontendKind.EXTERNAL_IP, EXT, 80),
    Frontend(FrontendKind.NODE_PORT, "", 31080),
)
SETUP = PlanSetup(node_port_addresses=(NODE, "198.51.100.77"), own=frozenset({NODE}))
ENTRY = Entry(
    ServicePortName("shop", "cart", "http", Protocol.TCP),
    FRONTENDS,
    cluster=(LOCAL, REMOTE),
    local=(LOCAL,),
    has_endpoints=True,
    externally_accessible=True,
)


def changed(**fields: object) -> Entry:
    return msgspec.structs.replace(ENTRY, **fields)


def of(protocol: Protocol) -> Entry:
    return changed(name=ServicePortName("shop", "cart", "http", protocol))


def members(part: Part, set_: IpSet) -> list[str]:
    return [member for each, member in part.members if each is set_]


def behind(part: Part, address: str, port: int) -> tuple[str, ...]:
    key = ServerKey(Protocol.TCP, address, port)
    server = part.servers.get(key) or part.node_ports[key]
    return tuple(real.address for real in server.reals)


def test_a_virtual_server_for_every_address() -> None:
    part = plan(ENTRY, SETUP)
    assert {
        ServerKey(Protocol.TCP, CIP, 80),
        ServerKey(Protocol.TCP, VIP, 80),
        ServerKey(Protocol.TCP, EXT, 80),
    } == part.servers.keys()
    assert {
        ServerKey(Protocol.TCP, NODE, 31080),
        ServerKey(Protocol.TCP, "198.51.100.77", 31080),
    } == part.node_ports.keys()
    assert [*part.servers, *part.node_ports] == list(part.server_keys())
    reals = (RealKey("10.64.3.11", 8080), RealKey("10.65.7.21", 8080))
    assert {reals} == {server.reals for server in part.servers.values()}


@pytest.mark.parametrize(
    ("fields", "internal", "external"),
    [
        pytest.param({}, "both", "both", id="policies-cluster"),
        pytest.param(
            {"external": Policy.EXTERNAL_LOCAL}, "both", "local", id="external-policy-local"
        ),
        pytest.param(
            {"internal": Policy.INTERNAL_LOCAL}, "local", "both", id="internal-policy-local"
        ),
        pytest.param(
            {"external": Policy.EXTERNAL_LOCAL, "local": ()},
            "both",
            "both",
            id="no-endpoint-here-falls-back",
        ),
    ],
)
def test_which_endpoints_are_behind_it(
    fields: dict[str, object], internal: str, external: str
) -> None:
    both = {"both": ("10.64.3.11", "10.65.7.21"), "local": ("10.64.3.11",)}
    part = plan(changed(**fields), SETUP)
    assert both[internal] == behind(part, CIP, 80)
    assert both[external] == behind(part, VIP, 80) == behind(part, NODE, 31080)


@pytest.mark.parametrize(
    ("entry", "setup", "expected"),
    [
        pytest.param(ENTRY, SETUP, VirtualServer("rr", 0, 0), id="default"),
        pytest.param(
            changed(affinity_seconds=600), SETUP, VirtualServer("rr", PERSISTENT, 600), id="sticky"
        ),
        pytest.param(
            ENTRY, PlanSetup(scheduler="mh"), VirtualServer("mh", SOURCE_PORT, 0), id="maglev"
        ),
        pytest.param(
            changed(affinity_seconds=9),
            PlanSetup(scheduler="mh"),
            VirtualServer("mh", PERSISTENT | SOURCE_PORT, 9),
            id="sticky-maglev",
        ),
    ],
)
def test_what_a_virtual_server_is_set_to(
    entry: Entry, setup: PlanSetup, expected: VirtualServer
) -> None:
    assert {expected} == {server.virtual for server in plan(entry, setup).servers.values()}


def test_an_address_of_two_kinds_has_one_server_the_strictest() -> None:
    frontends = (FRONTENDS[0], Frontend(FrontendKind.EXTERNAL_IP, CIP, 80))
    part = plan(changed(frontends=frontends, external=Policy.EXTERNAL_LOCAL), SETUP)
    assert behind(part, CIP, 80) == ("10.64.3.11", "10.65.7.21")
    assert members(part, IpSet.IPVS_IPS) == [CIP]


def test_what_the_node_has_itself_is_not_bound_but_for_cluster_ips() -> None:
    own = PlanSetup(own=frozenset({CIP, VIP}))
    assert members(plan(ENTRY, own), IpSet.IPVS_IPS) == [CIP, EXT]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        pytest.param(
            ENTRY,
            {
                IpSet.CLUSTER_IP: [f"{CIP},tcp:80"],
                IpSet.LOAD_BALANCER: [f"{VIP},tcp:80"],
                IpSet.EXTERNAL_IP: [f"{EXT},tcp:80"],
                IpSet.NODE_PORT_TCP: ["31080"],
            },
            id="plain",
        ),
        pytest.param(
            changed(external=Policy.EXTERNAL_LOCAL, local=(LOCAL,)),
            {
                IpSet.CLUSTER_IP: [f"{CIP},tcp:80"],
                IpSet.LOAD_BALANCER: [f"{VIP},tcp:80"],
                IpSet.LOAD_BALANCER_LOCAL: [f"{VIP},tcp:80"],
                IpSet.EXTERNAL_IP_LOCAL: [f"{EXT},tcp:80"],
                IpSet.NODE_PORT_TCP: ["31080"],
                IpSet.NODE_PORT_LOCAL_TCP: ["31080"],
            },
            id="local",
        ),
        pytest.param(
            changed(
                frontends=FRONTENDS[1:2],
                source_ranges=(prefix("192.0.2.0/25"), prefix("192.0.2.7/32")),
                own_vips=True,
            ),
            {
                IpSet.LOAD_BALANCER: [f"{VIP},tcp:80"],
                IpSet.LOAD_BALANCER_FW: [f"{VIP},tcp:80"],
                IpSet.LOAD_BALANCER_SOURCE_CIDR: [
                    f"{VIP},tcp:80,192.0.2.0/25",
                    f"{VIP},tcp:80,192.0.2.7",
                ],
                IpSet.LOAD_BALANCER_SOURCE_IP: [f"{VIP},tcp:80,{VIP}"],
            },
            id="source-ranges-with-this-node",
        ),
        pytest.param(
            msgspec.structs.replace(of(Protocol.UDP), frontends=FRONTENDS[3:]),
            {IpSet.NODE_PORT_UDP: ["31080"]},
            id="udp-node-port",
        ),
        pytest.param(
            msgspec.structs.replace(
                of(Protocol.SCTP), frontends=FRONTENDS[3:], external=Policy.EXTERNAL_LOCAL
            ),
            {
                IpSet.NODE_PORT_SCTP_HASH: [f"{NODE},sctp:31080", "198.51.100.77,sctp:31080"],
                IpSet.NODE_PORT_LOCAL_SCTP_HASH: [
                    f"{NODE},sctp:31080",
                    "198.51.100.77,sctp:31080",
                ],
            },
            id="sctp-node-port",
        ),
        pytest.param(
            changed(frontends=(), here=(LOCAL,)),
            {IpSet.LOOP_BACK: ["10.64.3.11,tcp:8080,10.64.3.11"]},
            id="endpoints-that-run-here",
        ),
    ],
)
def test_members(entry: Entry, expected: dict[IpSet, list[str]]) -> None:
    part = plan(entry, SETUP)
    found = {set_: members(part, set_) for set_ in IpSet if set_ is not IpSet.IPVS_IPS}
    assert expected == {set_: each for set_, each in found.items() if each}


@pytest.mark.parametrize(
    ("fields", "denied"),
    [
        pytest.param({}, [], id="open-to-all"),
        pytest.param({"source_ranges": (), "own_vips": False}, [VIP], id="this-node-is-outside"),
        pytest.param({"source_ranges": (), "own_vips": True}, [], id="this-node-is-inside"),
    ],
)
def test_denials(fields: dict[str, object], denied: list[str]) -> None:
    assert denied == [key.address for key in plan(changed(**fields), SETUP).denials]


@pytest.mark.parametrize(
    ("frontends", "setup", "expected"),
    [
        pytest.param(FRONTENDS, SETUP, ["32080"], id="node-ports-are-served"),
        pytest.param(FRONTENDS, PlanSetup(), [], id="no-address-for-node-ports"),
        pytest.param(FRONTENDS[:2], PlanSetup(), ["32080"], id="no-node-port"),
    ],
)
def test_health_check_port(
    frontends: tuple[Frontend, ...], setup: PlanSetup, expected: list[str]
) -> None:
    part = plan(changed(frontends=frontends), setup, 32080)
    assert expected == members(part, IpSet.HEALTH_CHECK_NODE_PORT)


def test_the_setup_of_a_node() -> None:
    expected = PlanSetup("wlc", (NODE, "198.51.100.77"), frozenset({NODE, "198.51.100.77"}))
    assert expected == setup_of(node(Mode.IPVS), "wlc")


# --- counters of connections ------------------------------------------------------------------

BOTH = (NODE, "198.51.100.77")


def key(address: str, port: int = 80) -> ServerKey:
    return ServerKey(Protocol.TCP, address, port)


def test_every_frontend_has_the_connections_of_its_servers() -> None:
    connections = {key(CIP): 4, key(VIP): 3, key(BOTH[0], 31080): 2, key(BOTH[1], 31080): 1}
    cluster_ip, balancer, external, node_port = FRONTENDS
    expected = {
        Count(cluster_ip, key(CIP), 4),
        Count(balancer, key(VIP), 3),
        Count(external, key(EXT), None),
        Count(node_port, key(BOTH[0], 31080), 2),
        Count(node_port, key(BOTH[1], 31080), 1),
    }
    ((name, found),) = counts([ENTRY], SETUP, connections | {key("10.112.0.99"): 50})
    assert ENTRY.name == name
    assert (expected, 5) == (set(found), len(found))


def test_an_address_of_two_kinds_is_counted_once() -> None:
    first = FRONTENDS[0]
    entry = changed(frontends=(first, first._replace(kind=FrontendKind.EXTERNAL_IP)))
    expected = [(entry.name, [Count(first, key(CIP), 4)])]
    assert expected == list(counts([entry], PlanSetup(), {key(CIP): 4}))
