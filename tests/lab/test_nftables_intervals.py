"""Sets of ranges become any other sets of ranges, and the kernel refuses no step of it."""

import errno
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubeproxy.base.inet import Family, Prefix, unpack
from kubeproxy.base.inet import network as network_of
from kubeproxy.dataplane.nftables.encode import delete_table
from kubeproxy.dataplane.nftables.names import TABLE
from kubeproxy.linux.netlink.message import MessageError
from kubeproxy.linux.netlink_socket import Refused
from kubeproxy.linux.nfnetlink import Nfnetlink
from kubeproxy.table.entries import Entry, Frontend, FrontendKind
from lab.entries import exposed, served
from lab.farm import crop
from lab.listing import blocks, list_table
from lab.network import Network
from lab.plane import Plane
from world import NODE_ADDRESSES, prefix

SERVICES = 2


class Way(Enum):
    """How a step is made."""

    PARTIAL = "partial"
    FULL = "full"
    RESTART = "restart"


class Step(NamedTuple):
    """The service ranges, the source ranges of each service, and the node's addresses."""

    way: Way
    service_cidrs: tuple[Prefix, ...]
    source_ranges: tuple[tuple[Prefix, ...] | None, ...]
    addresses: tuple[str, ...]


def prefixes(family: Family) -> st.SearchStrategy[Prefix]:
    """Few bits differ, at both ends of all addresses: many ranges are nested or side by side."""
    bits = family.bits
    last = (1 << bits) - 1
    numbers = st.one_of(
        st.integers(0, 0x3FF).map(lambda low: low << (bits - 12)),
        st.integers(0, 0x3F).map(lambda low: last - low),
    )
    lengths = st.sampled_from((0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, bits - 3, bits - 1, bits))
    return st.builds(
        lambda number, length: network_of(unpack(number.to_bytes(bits // 8)), length),
        numbers,
        lengths,
    )


def steps(family: Family) -> st.SearchStrategy[list[Step]]:
    """Some steps, of which the first programs all."""
    ranges = st.lists(prefixes(family), max_size=5).map(tuple)
    addresses = st.lists(st.sampled_from(NODE_ADDRESSES[family]), unique=True).map(tuple)
    step = st.builds(
        Step,
        st.sampled_from(Way),
        ranges,
        st.tuples(*[st.none() | ranges] * SERVICES),
        addresses,
    )
    return st.lists(step, min_size=2, max_size=6)


def entries(step: Step, family: Family) -> list[Entry]:
    plain = [served(number, [crop(number, family)], family) for number in range(SERVICES)]
    return [
        msgspec.structs.replace(exposed(entry, number, family), source_ranges=ranges)
        for number, (entry, ranges) in enumerate(zip(plain, step.source_ranges, strict=True))
    ]


def take(kestrel: Plane, step: Step) -> None:
    """Make the step."""
    kestrel.node = msgspec.structs.replace(
        kestrel.node, service_cidrs=step.service_cidrs, addresses=step.addresses
    )
    wanted = entries(step, kestrel.node.family)
    if step.way is Way.PARTIAL:
        kestrel.put(wanted)
        return
    kestrel.expect(wanted)
    if step.way is Way.FULL:
        kestrel.resync()
    else:
        kestrel.restart()


@given(data=st.data())
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_ranges_become_any_others(
    kestrel: Plane, network: Network, family: Family, data: st.DataObject
) -> None:
    for step in data.draw(steps(family)):
        take(kestrel, step)
        assert kestrel.kernel.refused == []
    assert blocks(kestrel.text()) == blocks(list_table(network.node, family))


@pytest.mark.parametrize("count", [1, 3000], ids=["one", "more-than-a-message-holds"])
def test_ranges_by_the_thousand(
    kestrel: Plane, network: Network, family: Family, count: int
) -> None:
    """Whether one message holds them or not."""
    apart = [
        network_of(unpack((n << (family.bits - 13)).to_bytes(family.bits // 8)), 14)
        for n in range(count)
    ]
    for ranges in (apart, apart[1:], apart):
        kestrel.node = msgspec.structs.replace(kestrel.node, service_cidrs=tuple(ranges))
        kestrel.put([])
        assert kestrel.kernel.refused == []
        listed = blocks(list_table(network.node, family))["set service-cidrs"]
        assert blocks(kestrel.text())["set service-cidrs"] == listed


def test_service_ranges_that_went_while_no_daemon_ran(
    kestrel: Plane, network: Network, family: Family
) -> None:
    """Two of three, and an endpoint: the kernel must not go on sending to that of before."""
    if family is Family.IPV4:
        texts = ("10.96.0.0/16", "10.112.0.0/16", "10.130.0.0/16")
    else:
        texts = ("fd96::/112", "fd97::/112", "fd98::/112")
    ranges = tuple(map(prefix, texts))
    kestrel.node = msgspec.structs.replace(kestrel.node, service_cidrs=ranges)
    kestrel.put([served(1, [crop(1, family)], family)])
    kestrel.node = msgspec.structs.replace(kestrel.node, service_cidrs=ranges[:1])
    kestrel.expect([served(1, [crop(2, family)], family)])
    assert not kestrel.restart().failed
    assert kestrel.kernel.refused == []
    assert blocks(kestrel.text()) == blocks(list_table(network.node, family))


def test_a_table_that_takes_no_change_is_replaced(
    kestrel: Plane, network: Network, family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the reason is: no family stands still for ever."""
    whole = delete_table(family, TABLE)
    commit = Nfnetlink.commit

    def stubborn(
        self: Nfnetlink, messages: Sequence[bytes], generation: int | None = None
    ) -> None:
        if messages and whole not in messages:
            raise Refused("cannot commit", MessageError(0, errno.ENOENT))
        commit(self, messages, generation)

    kestrel.put([served(1, [crop(1, family)], family)])
    generation = kestrel.kernel.generation()
    monkeypatch.setattr(Nfnetlink, "commit", stubborn)
    assert not kestrel.put([served(1, [crop(2, family)], family)]).failed
    assert kestrel.kernel.generation() == generation + 1
    assert blocks(kestrel.text()) == blocks(list_table(network.node, family))


def test_ports_of_a_service_have_one_list_of_sources(
    kestrel: Plane, network: Network, family: Family
) -> None:
    """A list for each of 300 ports would be 90,000 ranges, and minutes in the kernel."""
    apart = tuple(
        network_of(unpack((n << (family.bits - 13)).to_bytes(family.bits // 8)), 14)
        for n in range(300)
    )
    plain = exposed(served(1, [crop(1, family)], family), 1, family)
    balancer = plain.addresses(FrontendKind.LOAD_BALANCER)[0]
    ports = [
        msgspec.structs.replace(
            plain,
            name=plain.name._replace(port=str(port)),
            frontends=(Frontend(FrontendKind.LOAD_BALANCER, balancer, port),),
            source_ranges=apart,
        )
        for port in range(1, 301)
    ]
    kestrel.put(ports)
    listed = list_table(network.node, family)
    assert listed.count(" . tcp . ") + listed.count(" 0:1 . ") <= 5 * 300
    assert blocks(kestrel.text()) == blocks(listed)
    assert kestrel.restart().written == 0
