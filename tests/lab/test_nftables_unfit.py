"""A service port that cannot be written is left out; the kernel has all others."""

import msgspec
import pytest

from kubeproxy.base.inet import network, unpack
from kubeproxy.table.entries import Backend, Entry, Frontend, FrontendKind
from lab.entries import exposed, served
from lab.farm import crop
from lab.listing import Blocks, blocks, list_table, without_idle_choices
from lab.namespaces import Namespace
from lab.plane import Plane
from lab.stage import Lab


@pytest.fixture
def services(kestrel: Plane) -> list[Entry]:
    family = kestrel.node.family
    backends = [crop(number, family) for number in range(3)]
    return [exposed(served(number, backends, family), number, family) for number in (1, 2)]


def bad_ones(kestrel: Plane) -> list[Entry]:
    """Values that no model lets through, and the kernel has no room for."""
    good = served(3, [crop(3, kestrel.node.family)], kestrel.node.family)
    port = Frontend(FrontendKind.NODE_PORT, "", 70_000)
    name = good.name._replace(service="b")
    return [
        msgspec.structs.replace(good, cluster=(Backend("nowhere", 80),)),
        msgspec.structs.replace(good, name=name, frontends=(port,)),
    ]


def listed(namespace: Namespace, kestrel: Plane) -> Blocks:
    return blocks(list_table(namespace, kestrel.node.family))


def test_the_kernel_has_all_others(lab: Lab, kestrel: Plane, services: list[Entry]) -> None:
    bad = bad_ones(kestrel)
    names = {entry.name for entry in bad}
    kestrel.put(services)
    wanted = listed(lab.network.node, kestrel)
    assert names == kestrel.put([*services, *bad]).failed.keys()
    assert wanted == without_idle_choices(listed(lab.network.node, kestrel), wanted)
    assert names == kestrel.resync().failed.keys()
    assert wanted == without_idle_choices(listed(lab.network.node, kestrel), wanted)
    assert names == kestrel.restart().failed.keys()
    assert wanted == without_idle_choices(listed(lab.network.node, kestrel), wanted)
    assert kestrel.put(services).failed == {}
    assert kestrel.restart().written == 0


def test_too_many_source_ranges_are_named_and_harm_no_other_service(
    kestrel: Plane, services: list[Entry]
) -> None:
    family = kestrel.node.family
    step = 1 << (family.bits - 20)
    ranges = tuple(
        network(unpack((n * 2 * step).to_bytes(family.bits // 8)), 20) for n in range(5001)
    )
    many = msgspec.structs.replace(services[0], source_ranges=ranges)
    report = kestrel.put([many, services[1]])
    assert report.failed == {
        many.name: "loadBalancerSourceRanges has 5,001 separate ranges, of which at most 5,000 can"
        " be programmed: use fewer, larger ones"
    }
    fewer = msgspec.structs.replace(many, source_ranges=ranges[1:])
    assert kestrel.put([fewer, services[1]]).failed == {}
