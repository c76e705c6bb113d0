"""What a process finds in the kernel when it starts: its own rules, older ones, or others'."""

import msgspec
import pytest

from kubeproxy.dataplane.nftables import inspect
from kubeproxy.dataplane.nftables.apply import Settings
from kubeproxy.inet import Family
from kubeproxy.table.entries import Entry
from kubeproxy.table.node import Mode, PodCIDR
from lab.calls import Answers, Calls
from lab.entries import Chance, exposed, served, service_ip
from lab.farm import PORT, crop
from lab.listing import KEYWORD, blocks, list_table
from lab.network import Network
from lab.plan import cluster_ip
from lab.plane import Plane, plane
from lab.stage import NFTABLES, Lab
from world import node, prefix

pytestmark = pytest.mark.parametrize("stage", [NFTABLES], indirect=True, ids=["nftables"])

CHANGES = 200


def test_a_restart_after_any_changes_writes_nothing(kestrel: Plane, family: Family) -> None:
    chance = Chance(1, family)
    entries: dict[int, Entry] = {}
    for _ in range(CHANGES):
        chance.change(entries)
        assert not kestrel.put(entries.values()).failed
    generation = kestrel.kernel.generation()
    assert kestrel.restart().written == 0
    assert kestrel.kernel.generation() == generation
    # A second full sync of the same process removes choices that nobody makes any more.
    kestrel.resync()
    assert kestrel.resync().written == 0


@pytest.mark.parametrize("counters", [False, True], ids=["plain", "counting-endpoints"])
def test_a_large_cluster_is_read_back_to_the_last_element(
    lab: Lab, family: Family, counters: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large maps are read in another way, by the keys that they should have."""
    monkeypatch.setattr(inspect, "LARGE_SET", 100)
    lab.stop()
    node_ns = lab.network.node
    table = f"{KEYWORD[family]} kube-proxy"
    backends = [crop(number, family) for number in range(9)]
    entries = [served(number, backends, family) for number in range(1, 31)]
    first = f"{service_ip(1, family)} . tcp . 80"
    stranger = f"{crop(99, family).address} . {PORT}"
    with plane(node_ns, node(Mode.NFTABLES, family), Settings(14, counters)) as kestrel:
        kestrel.put(entries)
        assert kestrel.restart().written == 0
        wanted = blocks(kestrel.text())
        for script in (
            f"delete element {table} service-endpoints {{ {first} . 3 }}",
            f"add element {table} service-endpoints {{ {first} . 9 : {stranger} }}",
            f"""delete element {table} service-endpoints {{ {first} . 3 }}
            add element {table} service-endpoints {{ {first} . 3 : {stranger} }}""",
            f"delete element {table} service-ips {{ {first} }}",
        ):
            node_ns.run(["nft", "-f", "-"], stdin=script)
            assert 0 < kestrel.resync().written <= 2
            assert blocks(list_table(node_ns, family)) == wanted


def test_a_choice_that_was_idle_follows_the_new_settings(
    kestrel: Plane, network: Network, family: Family
) -> None:
    """With masqueradeAll no fixed rule names the range of pods: only those of choices do."""
    kestrel.node = msgspec.structs.replace(kestrel.node, masquerade_all=True)
    plain = served(1, [crop(0, family), crop(1, family)], family)
    split = exposed(msgspec.structs.replace(plain, external_local=True), 1, family)
    kestrel.put([split])
    kestrel.put([plain])
    pods = PodCIDR(prefix("10.0.0.0/9" if family is Family.IPV4 else "fd99::/24"))
    kestrel.node = msgspec.structs.replace(kestrel.node, detector=pods)
    kestrel.restart()
    kestrel.put([split])
    wanted = blocks(kestrel.text())
    found = blocks(list_table(network.node, family))
    assert wanted == {head: found[head] for head in wanted}


def upstream_like(family: Family) -> str:
    """A table that has a chain for each service and each endpoint, for two services."""
    ip = KEYWORD[family]
    type_ = "ipv4_addr" if family is Family.IPV4 else "ipv6_addr"
    frontends = [(number, cluster_ip(number, family)) for number in (1, 2)]
    chains = [_upstream_service(number, family) for number, _ in frontends]
    to_service = ",\n".join(
        f"{address} . tcp . 80 : goto service-{number}" for number, address in frontends
    )
    return f"""
    table {ip} kube-proxy {{
        comment "rules for kube-proxy"
        set cluster-ips {{
            type {type_}
            comment "Active ClusterIPs"
            elements = {{ {", ".join(address for _, address in frontends)} }}
        }}
        set nodeport-ips {{
            type {type_}
        }}
        set hairpin-connections {{
            type {type_} . {type_} . inet_proto . inet_service
        }}
        map service-ips {{
            type {type_} . inet_proto . inet_service : verdict
            comment "ClusterIP, ExternalIP and LoadBalancer IP traffic"
            elements = {{ {to_service} }}
        }}
        map service-nodeports {{
            type inet_proto . inet_service : verdict
        }}
        map no-endpoint-services {{
            type {type_} . inet_proto . inet_service : verdict
        }}
        map no-endpoint-nodeports {{
            type inet_proto . inet_service : verdict
        }}
        map firewall-ips {{
            type {type_} . inet_proto . inet_service : verdict
        }}
        chain mark-for-masquerade {{
            meta mark set meta mark or 0x4000
        }}
        {"".join(chains)}
        chain firewall-check {{
            {ip} daddr . meta l4proto . th dport vmap @firewall-ips
        }}
        chain service-endpoints-check {{
            {ip} daddr . meta l4proto . th dport vmap @no-endpoint-services
        }}
        chain nodeport-endpoints-check {{
            {ip} daddr @nodeport-ips meta l4proto . th dport vmap @no-endpoint-nodeports
        }}
        chain services {{
            {ip} daddr . meta l4proto . th dport vmap @service-ips
            {ip} daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports
        }}
        chain filter-prerouting-pre-dnat {{
            type filter hook prerouting priority dstnat - 10
            ct state new jump firewall-check
        }}
        chain filter-input {{
            type filter hook input priority filter
            ct state new jump nodeport-endpoints-check
        }}
        chain filter-forward {{
            type filter hook forward priority filter
            ct state new jump service-endpoints-check
        }}
        chain nat-prerouting {{
            type nat hook prerouting priority dstnat
            jump services
        }}
        chain nat-output {{
            type nat hook output priority -100
            jump services
        }}
        chain nat-postrouting {{
            type nat hook postrouting priority srcnat
            meta mark & 0x4000 == 0x4000 masquerade fully-random
            {ip} saddr . {ip} daddr . meta l4proto . th dport @hairpin-connections masquerade
        }}
    }}"""


def _upstream_service(number: int, family: Family) -> str:
    ip = KEYWORD[family]
    text = ""
    for place in (0, 1):
        backend = crop(place, family)
        text += f"""
        chain endpoint-{number}-{place} {{
            {ip} saddr {backend.address} jump mark-for-masquerade
            meta l4proto tcp dnat to {backend}
        }}"""
    return f"""{text}
        chain service-{number} {{
            numgen random mod 2 vmap {{
                0 : goto endpoint-{number}-0, 1 : goto endpoint-{number}-1
            }}
        }}"""


def two_services(family: Family) -> list[Entry]:
    backends = [crop(0, family), crop(1, family)]
    return [exposed(served(number, backends, family), number, family) for number in (1, 2)]


def older_program(kestrel: Plane) -> str:
    """Our rules as another version might have them: one more set, one rule less."""
    lines = [line for line in kestrel.text().splitlines() if "@service-connections" not in line]
    return "\n".join([*lines[:-1], "\tset retired { type inet_service; }", *lines[-1:]])


def called(network: Network, family: Family) -> Calls:
    return Calls(network, "P", [(cluster_ip(number, family), 80) for number in (1, 2)])


def assert_served(answers: Answers, family: Family) -> None:
    endpoints = {f"{crop(number, family).address} {PORT}" for number in (0, 1)}
    assert (answers.failed, answers.failures) == (0, ())
    assert answers.by.keys() <= endpoints


@pytest.mark.usefixtures("farm")
@pytest.mark.parametrize("before", ["upstream", "older"])
def test_a_take_over_is_one_transaction_that_nobody_notices(
    kestrel: Plane, network: Network, family: Family, before: str
) -> None:
    kestrel.put(two_services(family))
    text = upstream_like(family) if before == "upstream" else older_program(kestrel)
    swap = f"delete table {KEYWORD[family]} kube-proxy\n{text}"
    with called(network, family) as calls:
        for _ in range(10):
            network.node.run(["nft", "-f", "-"], stdin=swap)
            calls.so_far()  # what happens when nft swaps tables is not our business
            generation = kestrel.kernel.generation()
            assert kestrel.restart().written
            assert kestrel.kernel.generation() == generation + 1
            assert_served(calls.so_far(), family)
    assert blocks(kestrel.text()) == blocks(list_table(network.node, family))


@pytest.mark.usefixtures("farm")
def test_who_was_there_before_can_come_back(
    kestrel: Plane, network: Network, family: Family
) -> None:
    """It adds what it needs to the table that it finds, empties its own parts and fills them."""
    kestrel.put(two_services(family))
    table = f"{KEYWORD[family]} kube-proxy"
    text = upstream_like(family)
    own = [line.split()[:2] for line in text.splitlines() if line.endswith("{")]
    known = blocks(list_table(network.node, family)).keys()
    flushes = [f"flush {kind} {table} {name}" for kind, name in own if f"{kind} {name}" in known]
    assert len(flushes) > 10
    network.node.run(["nft", "-f", "-"], stdin="\n".join([*flushes, text]))
    with called(network, family) as calls:
        calls.so_far()
        assert_served(calls.so_far(), family)
        assert kestrel.restart().written
        assert_served(calls.so_far(), family)
    assert blocks(kestrel.text()) == blocks(list_table(network.node, family))
