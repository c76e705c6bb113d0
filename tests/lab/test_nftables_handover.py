"""Taking the table over from other programs, and giving it back to upstream's."""

import re

import msgspec
import pytest

from kubeproxy.base.inet import Family, Prefix
from kubeproxy.config.nodeports import expand
from kubeproxy.table.entries import Entry
from kubeproxy.table.node import NodeView
from kubeproxy.table.policy import Policy
from lab.calls import Answers, Calls
from lab.entries import exposed, served
from lab.farm import PORT, crop
from lab.listing import KEYWORD, blocks, list_table
from lab.network import Network
from lab.plan import cluster_ip
from lab.plane import Plane
from lab.upstream import (
    SINCE_1_33,
    UP_TO_1_32,
    Release,
    Service,
    Upstream,
    accepting,
    add,
    later,
    start,
)
from world import NODE_ADDRESSES, NODE_IP, Mode, node, prefix

pytestmark = pytest.mark.usefixtures("farm")


def services(family: Family, *numbers: int) -> list[Service]:
    """Services as upstream has them, which two endpoints serve."""
    backends = crop(0, family), crop(1, family)
    return [Service(f"s{n}", cluster_ip(n, family), 30000 + n, backends) for n in numbers]


def entries(family: Family) -> list[Entry]:
    """The same services 1 and 2 as we have them, and one with all that a service can have."""
    backends = [crop(0, family), crop(1, family)]
    plain = [exposed(served(number, backends, family), number, family) for number in (1, 2)]
    full = msgspec.structs.replace(
        exposed(served(9, backends, family), 9, family),
        local=(crop(0, family),),
        external=Policy.EXTERNAL_LOCAL,
        affinity_seconds=600,
        source_ranges=(prefix("192.0.2.0/25" if family is Family.IPV4 else "2001:db8::/33"),),
    )
    return [*plain, full, exposed(served(10, [], family), 10, family)]


def older_program(kestrel: Plane) -> str:
    """Our rules as another version might have them: one more set, one rule less."""
    lines = [line for line in kestrel.text().splitlines() if "@service-connections" not in line]
    return "\n".join([*lines[:-1], "\tset retired { type inet_service; }", *lines[-1:]])


def called(network: Network, family: Family, *numbers: int) -> Calls:
    return Calls(network, "P", [(cluster_ip(number, family), 80) for number in numbers])


def assert_served(answers: Answers, family: Family) -> None:
    endpoints = {f"{crop(number, family).address} {PORT}" for number in (0, 1)}
    assert (answers.failed, answers.failures) == (0, ())
    assert answers.by.keys() <= endpoints


@pytest.mark.parametrize("before", ["upstream", "older"])
def test_a_take_over_is_one_transaction_and_loses_no_call(
    kestrel: Plane, network: Network, family: Family, before: str
) -> None:
    kestrel.put(entries(family)[:2])
    older = older_program(kestrel)
    table = f"{KEYWORD[family]} kube-proxy"
    go = Upstream(family, SINCE_1_33, (NODE_IP[family],))
    for _ in range(10):
        network.node.run(["nft", "delete", "table", *table.split()])
        text = older if before == "older" else start(go, services(family, 1, 2), network.node)
        network.node.run(["nft", "-f", "-"], stdin=text)
        with called(network, family, 1, 2) as calls:
            generation = kestrel.kernel.generation()
            assert kestrel.restart().written
            assert kestrel.kernel.generation() == generation + 1
            assert_served(calls.so_far(), family)
    assert blocks(kestrel.text()) == blocks(list_table(network.node, family))


UNSET = ("primary",)
EVERYTHING = ("0.0.0.0/0", "::/0")
RANGES = ("198.51.100.0/24", "2001:db8:aa::/64")


class Going(msgspec.Struct, frozen=True):
    """To which release an operator goes back, on what node, with which `nodePortAddresses`.

    `known` says whether the node has an address of the family.
    """

    known: bool = True
    node_port_addresses: tuple[str, ...] = UNSET
    release: Release = SINCE_1_33
    gate: bool = False

    def node(self, family: Family) -> NodeView:
        """The node as we know it."""
        return msgspec.structs.replace(
            node(Mode.NFTABLES, family),
            node_port_ranges=tuple(p for p in self._ranges() if p.family is family),
            localhost_gate=self.gate,
        )

    def upstream(self, family: Family) -> Upstream:
        """Upstream with the same settings, but for the feature gate."""
        addresses = accepting(family, map(str, self._ranges()), NODE_ADDRESSES[family])
        return Upstream(family, self.release, addresses)

    def _ranges(self) -> tuple[Prefix, ...]:
        return expand(self.node_port_addresses, NODE_IP if self.known else {})


@pytest.mark.parametrize(
    "going",
    [
        pytest.param(Going(), id="primary-which-is-the-default"),
        pytest.param(Going(known=False), id="primary-on-a-node-of-the-other-family-alone"),
        pytest.param(Going(node_port_addresses=EVERYTHING), id="everything"),
        pytest.param(Going(node_port_addresses=RANGES), id="ranges"),
        pytest.param(Going(node_port_addresses=EVERYTHING, gate=True), id="our-feature-gate"),
        pytest.param(Going(release=UP_TO_1_32), id="an-older-release"),
        pytest.param(
            Going(known=False, release=UP_TO_1_32), id="an-older-release-without-node-ports"
        ),
    ],
)
def test_upstream_comes_back_and_no_call_is_lost(
    kestrel: Plane, network: Network, family: Family, going: Going
) -> None:
    """It works on in the table that it finds: a start, and a sync some time later."""
    kestrel.node = going.node(family)
    kestrel.put(entries(family))
    go, here = going.upstream(family), network.node
    wanted = services(family, 1, 2, 3)
    with called(network, family, 1, 2) as calls:
        here.run(["nft", "-f", "-"], stdin=start(go, wanted[:2], here))
        assert_served(calls.so_far(), family)
        here.run(
            ["nft", "-f", "-"], stdin="\n".join([later(go, wanted, here), *add(go, wanted[2])])
        )
        assert_served(calls.so_far(), family)
    with called(network, family, 3) as calls:
        assert_served(calls.so_far(), family)
    assert hooks(network, family) == {*going.release.hooks}
    assert kestrel.restart().written
    assert blocks(kestrel.text()) == blocks(list_table(here, family))


def hooks(network: Network, family: Family) -> set[str]:
    """The chains that packets come to by themselves."""
    listed = list_table(network.node, family)
    return set(re.findall(r"^\tchain (\S+) \{\n\t\ttype ", listed, re.MULTILINE))
