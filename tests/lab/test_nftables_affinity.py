"""Session affinity as the kernel keeps it: made by packets, kept over changes, let go in time."""

import re
import time
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import pytest

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.nftables import pins
from kubeproxy.dataplane.nftables.describe import key_text
from kubeproxy.dataplane.nftables.elements import pin_bytes
from kubeproxy.dataplane.nftables.language import PRIORITY
from kubeproxy.dataplane.nftables.placed import Placed
from kubeproxy.dataplane.nftables.program import NftablesSettings
from kubeproxy.table.entries import Entry
from lab.entries import exposed, served
from lab.farm import PORT, crop
from lab.listing import KEYWORD, list_table
from lab.plan import cluster_ip, vip
from lab.plane import Plane, plane
from lab.salvo import Salvo
from lab.stage import Lab
from world import Mode, node

CLIENTS = 60


def sticky(numbers: Sequence[int], family: Family, seconds: int = 10800) -> Entry:
    backends = [crop(number, family) for number in numbers]
    entry = exposed(served(1, backends, family, Protocol.UDP), 1, family)
    return msgspec.structs.replace(entry, affinity_seconds=seconds)


def chosen(salvo: Salvo, address: str, clients: int = CLIENTS) -> dict[str, str]:
    """Which endpoint each client gets."""
    hits = salvo.fire([(address, 80)] * clients)
    assert len(hits) == clients
    return {hit.client: hit.endpoint for hit in hits}


def answered(number: int, family: Family) -> str:
    return f"{crop(number, family).address} {PORT}"


def test_a_client_keeps_its_endpoint_over_40_connections(
    kestrel: Plane, salvo: Salvo, family: Family
) -> None:
    """To the cluster IP and to the load balancer's, in turn; and other clients get others."""
    kestrel.put([sticky(range(7), family)])
    first = chosen(salvo, cluster_ip(1, family))
    assert len(first) == CLIENTS
    assert len(set(first.values())) == 7
    for _ in range(20):
        assert chosen(salvo, vip(1, family)) == first
        assert chosen(salvo, cluster_ip(1, family)) == first


def test_a_client_that_stays_away_is_forgotten(
    kestrel: Plane, salvo: Salvo, family: Family
) -> None:
    kestrel.put([sticky(range(7), family, seconds=2)])
    first = chosen(salvo, cluster_ip(1, family))
    for _ in range(3):
        time.sleep(0.8)
        assert chosen(salvo, cluster_ip(1, family)) == first
    time.sleep(2.2)
    assert chosen(salvo, cluster_ip(1, family)) != first


def test_a_client_whose_endpoint_goes_gets_another_and_keeps_it(
    kestrel: Plane, salvo: Salvo, family: Family
) -> None:
    kestrel.put([sticky(range(4), family)])
    first = chosen(salvo, cluster_ip(1, family))
    gone = answered(2, family)
    assert gone in first.values()
    kestrel.put([sticky((0, 1, 3), family)])
    second = chosen(salvo, vip(1, family))
    assert gone not in second.values()
    assert {c for c in first if first[c] != second[c]} == {c for c in first if first[c] == gone}
    kestrel.put([sticky(range(4), family)])
    for _ in range(5):
        assert chosen(salvo, cluster_ip(1, family)) == second


def test_pins_outlive_the_process(kestrel: Plane, salvo: Salvo, family: Family) -> None:
    kestrel.put([sticky(range(7), family)])
    first = chosen(salvo, cluster_ip(1, family))
    assert kestrel.restart().written == 0
    assert chosen(salvo, vip(1, family)) == first
    kestrel.put([sticky(range(9), family)])
    assert chosen(salvo, vip(1, family)) == first


def test_nft_lists_pins(kestrel: Plane, salvo: Salvo, lab: Lab, family: Family) -> None:
    kestrel.put([sticky([0], family)])
    chosen(salvo, cluster_ip(1, family))
    listed = list_table(lab.network.node, family)
    name = named(0, family)
    assert len(re.findall(rf"0:1 \. \S+ timeout 3h expires \w+ : {name}", listed)) == CLIENTS
    endpoint = answered(0, family).replace(" ", " . ")
    assert f"{cluster_ip(1, family)} . udp . 80 . {name} : {endpoint}" in listed


def named(number: int, family: Family) -> str:
    """An endpoint as a pin names it."""
    return key_text((PRIORITY,), pin_bytes(crop(number, family)))


def pin(lab: Lab, family: Family, clients: range, endpoint: int, number: int = 1) -> None:
    """Pin clients, as if they had come."""
    target = named(endpoint, family)
    addresses = (crop(10_000 + client, family).address for client in clients)
    made = ", ".join(f"0:{number:x} . {a} timeout 3h : {target}" for a in addresses)
    script = f"add element {KEYWORD[family]} kube-proxy affinity {{ {made} }}"
    lab.network.node.run(["nft", "-f", "-"], stdin=script)


def test_who_is_pinned_to_an_endpoint_that_left_gets_another_at_once(
    kestrel: Plane, salvo: Salvo, family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rules see to it, whatever the daemon does later."""
    kestrel.put([sticky(range(4), family)])
    first = chosen(salvo, cluster_ip(1, family))
    gone = answered(2, family)
    assert gone in first.values()
    monkeypatch.delattr("kubeproxy.dataplane.nftables.pins.read_pins")
    kestrel.put([sticky((0, 1, 3), family)])
    second = chosen(salvo, vip(1, family))
    assert gone not in second.values()
    assert {c for c in first if first[c] != second[c]} == {c for c in first if first[c] == gone}
    for _ in range(5):
        assert chosen(salvo, cluster_ip(1, family)) == second


def pins_to(lab: Lab, family: Family, endpoint: int) -> int:
    command = ["nft", "list", "map", KEYWORD[family], "kube-proxy", "affinity"]
    return lab.network.node.run(command).count(f": {named(endpoint, family)}")


def test_thousands_of_pins_go_with_their_service(
    kestrel: Plane, lab: Lab, family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    kestrel.put([sticky((0, 1), family)])
    for start in range(0, 10_000, 1000):
        pin(lab, family, range(start, start + 1000), endpoint=start // 1000 % 2)
    with monkeypatch.context() as without_reading_pins:
        without_reading_pins.delattr("kubeproxy.dataplane.nftables.pins.read_pins")
        kestrel.put([sticky((1, 2), family)])
    assert (pins_to(lab, family, 0), pins_to(lab, family, 1)) == (5000, 5000)
    kestrel.put([])
    assert (pins_to(lab, family, 0), pins_to(lab, family, 1)) == (0, 0)


def test_pins_that_time_out_meanwhile_are_no_error(
    kestrel: Plane, lab: Lab, family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    kestrel.put([sticky((0, 1), family)])
    pin(lab, family, range(50), endpoint=0)
    find = pins.stale_pins

    def and_as_many_that_are_gone(found: Iterable[bytes], placed: Iterable[Placed]) -> list[bytes]:
        stale = find(found, placed)
        return [each for head in stale for each in (head, head[:-4] + b"gone")]

    monkeypatch.setattr(pins, "stale_pins", and_as_many_that_are_gone)
    kestrel.put([])
    assert pins_to(lab, family, 0) == 0


SMALL = 50


@pytest.fixture
def full(lab: Lab, family: Family) -> Iterator[Plane]:
    """A map with room for few, which clients of another service have taken."""
    lab.stop()
    settings = NftablesSettings(affinity_size=SMALL)
    with plane(lab.network.node, node(Mode.NFTABLES, family), settings) as kestrel:
        kestrel.put([sticky(range(7), family)])
        pin(lab, family, range(SMALL), endpoint=9, number=77)
        yield kestrel


def overflows(lab: Lab, family: Family) -> int:
    command = ["nft", "list", "counter", KEYWORD[family], "kube-proxy", "affinity-full"]
    found = re.search(r"packets (\d+)", lab.network.node.run(command))
    assert found
    return int(found[1])


def test_clients_keep_their_endpoints_when_others_have_filled_the_map(
    full: Plane, lab: Lab, salvo: Salvo, family: Family
) -> None:
    first = chosen(salvo, cluster_ip(1, family))
    assert len(first) == CLIENTS
    assert len(set(first.values())) > 1
    for _ in range(10):
        assert chosen(salvo, cluster_ip(1, family)) == first
        assert chosen(salvo, vip(1, family)) == first
    assert overflows(lab, family) == 21 * CLIENTS
    # An endpoint leaves: whoever had it gets another, and keeps that.
    gone = first[min(first)]
    left = [number for number in range(7) if answered(number, family) != gone]
    full.put([sticky(left, family)])
    second = chosen(salvo, cluster_ip(1, family))
    assert gone not in second.values()
    kept = {client: endpoint for client, endpoint in first.items() if endpoint != gone}
    assert kept.items() <= second.items()
    assert chosen(salvo, vip(1, family)) == second


@pytest.mark.usefixtures("full")
def test_clients_get_pins_of_their_own_when_there_is_room_again(
    lab: Lab, salvo: Salvo, family: Family
) -> None:
    first = chosen(salvo, cluster_ip(1, family), SMALL)
    for name in ("affinity", "shared-affinity"):
        lab.network.node.run(["nft", "flush", "map", KEYWORD[family], "kube-proxy", name])
        assert chosen(salvo, cluster_ip(1, family), SMALL) == first
