"""What a process does when it finds its own rules in the kernel."""

import msgspec
import pytest

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.nftables import inspect
from kubeproxy.dataplane.nftables.program import NftablesSettings
from kubeproxy.table.entries import Entry
from kubeproxy.table.node import PodCIDR
from kubeproxy.table.policy import Policy
from lab.entries import Chance, exposed, served, service_ip
from lab.farm import PORT, crop
from lab.listing import KEYWORD, blocks, list_table
from lab.network import Network
from lab.plane import Plane, plane
from lab.stage import Lab
from world import Mode, node, prefix

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
    # A second full sync of the same process removes choices that are no longer made.
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
    with plane(node_ns, node(Mode.NFTABLES, family), NftablesSettings(14, counters)) as kestrel:
        kestrel.put(entries)
        assert kestrel.restart().written == 0
        wanted = blocks(kestrel.text())
        for script in (
            f"delete element {table} service-endpoints {{ {first} . 0:3 }}",
            f"add element {table} service-endpoints {{ {first} . 0:a : {stranger} }}",
            f"""delete element {table} service-endpoints {{ {first} . 0:3 }}
            add element {table} service-endpoints {{ {first} . 0:3 : {stranger} }}""",
            f"delete element {table} service-choices {{ {first} }}",
            f"delete element {table} choice-chains {{ 0:1 }}",
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
    split = exposed(msgspec.structs.replace(plain, external=Policy.EXTERNAL_LOCAL), 1, family)
    kestrel.put([split])
    kestrel.put([plain])
    pods = PodCIDR(prefix("10.0.0.0/9" if family is Family.IPV4 else "fd99::/24"))
    kestrel.node = msgspec.structs.replace(kestrel.node, detector=pods)
    kestrel.restart()
    kestrel.put([split])
    wanted = blocks(kestrel.text())
    found = blocks(list_table(network.node, family))
    assert wanted == {head: found[head] for head in wanted}
