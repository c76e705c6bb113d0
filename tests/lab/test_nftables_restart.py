"""What a process finds in the kernel when it starts: its own rules, older ones, or others'."""

from collections.abc import Iterator

import msgspec
import pytest

from kubeproxy.inet import Family
from kubeproxy.table.entries import Entry
from kubeproxy.table.node import Mode, PodCIDR
from lab.calls import Calls
from lab.entries import Chance, exposed, served
from lab.farm import Farm, crop
from lab.listing import KEYWORD, blocks, list_table
from lab.network import Network
from lab.plan import cluster_ip
from lab.plane import Plane, plane
from lab.stage import NFTABLES, Lab
from world import node, prefix

pytestmark = pytest.mark.parametrize("stage", [NFTABLES], indirect=True, ids=["nftables"])

CHANGES = 200


@pytest.fixture(scope="module")
def farm(network: Network) -> Iterator[Farm]:
    opened = Farm(network)
    yield opened
    opened.close()


@pytest.fixture(params=Family, ids=lambda family: family.value)
def family(request: pytest.FixtureRequest) -> Family:
    wanted: Family = request.param
    return wanted


@pytest.fixture
def kestrel(lab: Lab, family: Family) -> Iterator[Plane]:
    lab.stop()
    with plane(lab.network.node, node(Mode.NFTABLES, family)) as opened:
        yield opened


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
        map service-ips {{
            type {type_} . inet_proto . inet_service : verdict
            comment "ClusterIP, ExternalIP and LoadBalancer IP traffic"
            elements = {{ {to_service} }}
        }}
        chain mark-for-masquerade {{
            meta mark set meta mark or 0x4000
        }}
        {"".join(chains)}
        chain services {{
            {ip} daddr . meta l4proto . th dport vmap @service-ips
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


@pytest.mark.usefixtures("farm")
@pytest.mark.parametrize("before", ["upstream", "older"])
def test_a_take_over_is_one_transaction_that_nobody_notices(
    kestrel: Plane, network: Network, family: Family, before: str
) -> None:
    kestrel.put(two_services(family))
    text = upstream_like(family) if before == "upstream" else older_program(kestrel)
    swap = f"delete table {KEYWORD[family]} kube-proxy\n{text}"
    called = [(cluster_ip(1, family), 80), (cluster_ip(2, family), 80)]
    with Calls(network, "P", called) as calls:
        for _ in range(10):
            network.node.run(["nft", "-f", "-"], stdin=swap)
            generation = kestrel.kernel.generation()
            assert kestrel.restart().written
            assert kestrel.kernel.generation() == generation + 1
            during = calls.so_far()
            assert (during.failed, during.failures) == (0, ())
    assert blocks(kestrel.text()) == blocks(list_table(network.node, family))
