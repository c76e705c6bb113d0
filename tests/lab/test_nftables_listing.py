"""The rules in the kernel are those that we would write by hand, and nft lists them."""

import random
import re
from collections.abc import Iterator, Mapping
from typing import cast

import pytest

from kubeproxy.base.inet import Family
from kubeproxy.cluster.model.serviceport import BALANCE_ANNOTATION
from kubeproxy.dataplane.nftables.program import NftablesSettings
from lab.deploy import ETP_LOCAL, ITP_LOCAL, Port, affinity, deploy, everywhere, mall
from lab.documents import kestrel, service_cidr
from lab.expectation import expectation
from lab.generate import Generator
from lab.listing import blocks, list_table, normal, without_idle_choices
from lab.namespaces import Namespace
from lab.objects import Objects, objects
from lab.plane import Plane, plane
from world import NODE_ADDRESSES, Document

CIDR = "--cluster-cidr=10.64.0.0/14,fd40::/48"
GATE = "--feature-gates=KubeProxyNFTablesLocalhostNodePorts=true"
PREFIX = ("--detect-local-mode=InterfaceNamePrefix", "--pod-interface-name-prefix=pod-")
BRIDGE = ("--detect-local-mode=BridgeInterface", "--pod-bridge-interface=cbr0")
VARIANTS = [
    pytest.param((CIDR,), NftablesSettings(), id="plain"),
    pytest.param((CIDR, GATE), NftablesSettings(), id="refusing-loopback-addresses"),
    pytest.param((CIDR,), NftablesSettings(endpoint_counters=True), id="counting-endpoints"),
    pytest.param((CIDR,), NftablesSettings(masquerade_bit=0), id="another-masquerade-bit"),
    pytest.param((CIDR, "--masquerade-all"), NftablesSettings(), id="masquerading-all"),
    pytest.param(
        ("--cluster-cidr=10.64.3.128/25,fd40::/49",), NftablesSettings(), id="odd-range-of-pods"
    ),
    pytest.param(PREFIX, NftablesSettings(), id="pods-by-prefix-of-interface"),
    pytest.param(BRIDGE, NftablesSettings(), id="pods-by-bridge"),
    pytest.param((), NftablesSettings(), id="pods-unknown"),
    pytest.param(
        (CIDR, "--nodeport-addresses=all", GATE), NftablesSettings(), id="node-ports-everywhere"
    ),
    pytest.param((CIDR, "--nftables-healing=all"), NftablesSettings(), id="healing"),
]
# Two neighbours that nft writes as one range, a range within another, and one that is a host.
RANGES: Document = {
    "loadBalancerSourceRanges": [
        *("192.0.2.0/25", "10.1.0.0/24", "10.1.1.0/24", "10.1.2.0/24", "10.1.2.7/32"),
        *("172.16.0.9/32", "fd00:1::/64", "fd00:1:0:1::/64", "fd00:1:0:2::/64", "fd00::9/128"),
    ]
}


def balanced(documents: list[Document], how: str) -> list[Document]:
    """The same service with a choice of its own."""
    service, *slices = documents
    metadata = cast("Mapping[str, object]", service["metadata"])
    return [
        {**service, "metadata": {**metadata, "annotations": {BALANCE_ANNOTATION: how}}},
        *slices,
    ]


def everything() -> list[Document]:
    """A service for each feature that leaves a trace in the rules."""
    ports = [Port(node_port=31090), Port(53, 53, 31091)]
    sticky_here: Document = {**ETP_LOCAL, **ITP_LOCAL, **affinity(90061)}
    return [
        *mall(),
        *deploy("own", everywhere(40), "L1 L2 R1", ports, {**ETP_LOCAL, **affinity(1)}),
        *deploy("here", everywhere(41), "L1 R1", [Port(node_port=31092)], sticky_here),
        *balanced(deploy("turns", everywhere(42), "L1 L2 R1"), "round-robin"),
        *balanced(deploy("hash", everywhere(43), "L1 L2 R1", spec=affinity()), "source-hash"),
        *_allowed("fenced", 44, RANGES),
        *_allowed("open", 45, {"loadBalancerSourceRanges": ["0.0.0.0/0", "::/0"]}),
    ]


def _allowed(name: str, number: int, ranges: Document) -> list[Document]:
    service, *slices = deploy(name, everywhere(number), "L1 R1")
    spec = cast("Mapping[str, object]", service["spec"])
    return [{**service, "spec": {**spec, **ranges}}, *slices]


@pytest.fixture(scope="module")
def namespace(_own_namespaces: None) -> Iterator[Namespace]:
    made = Namespace("listing")
    yield made
    made.close()


@pytest.fixture
def programmed(
    namespace: Namespace, family: Family, flags: tuple[str, ...], settings: NftablesSettings
) -> Iterator[Plane]:
    """Everything in the kernel, by our own hand."""
    documents = [kestrel(), service_cidr(), *everything()]
    meant = expectation(documents, ["--proxy-mode=nftables", *flags], NODE_ADDRESSES)
    with plane(namespace, meant.nodes[family], settings) as opened:
        entries = meant.tables[family].entries
        opened.put(entries[name] for name in sorted(entries))  # so services are numbered alike
        yield opened


@pytest.mark.parametrize("family", Family)
@pytest.mark.parametrize(("flags", "settings"), VARIANTS)
def test_nft_lists_what_render_writes(
    programmed: Plane, namespace: Namespace, family: Family
) -> None:
    assert normal(programmed.text()) == normal(list_table(namespace, family))


_CHANGE = re.compile(r"(add|update|delete) @[\w-]+ { (?!meta priority)")


def as_nft_loads_it(text: str, family: Family) -> str:
    """The text without what nft 1.0.6 cannot load.

    It aborts (netlink_linearize.c, `dreg < ctx->reg_low`) on changes of elements whose keys begin
    with an IPv6 address: it runs out of registers, of which the kernel has enough. Listing these
    rules works.
    """
    if family is Family.IPV4:
        return text
    return "\n".join(line for line in text.splitlines() if not _CHANGE.search(line))


@pytest.mark.parametrize("family", Family)
@pytest.mark.parametrize(("flags", "settings"), VARIANTS)
def test_nft_makes_the_same_of_our_text(
    programmed: Plane, namespace: Namespace, family: Family
) -> None:
    """Sets, user data, chains and rules are the same in the kernel, attribute by attribute."""
    ours = objects(namespace, family)
    namespace.run(["nft", "flush", "ruleset"])
    namespace.run(["nft", "-f", "-"], stdin=as_nft_loads_it(programmed.text(), family))
    theirs = objects(namespace, family)
    assert ours["sets"] == theirs["sets"]
    assert ours["table"] == theirs["table"]
    assert ours["counters"] == theirs["counters"]
    assert ours["chains"] == theirs["chains"]
    assert comparable(ours, family) == comparable(theirs, family)


def comparable(found: Objects, family: Family) -> list[dict[int, bytes]]:
    """The rules that nft writes as we do.

    It has registers of its own for what it hashes, and with IPv6 for changes of elements.
    """
    foreign = [b"hash\0", *([b"dynset\0"] * (family is Family.IPV6))]
    return [rule for rule in found["rules"] if not any(word in rule[4] for word in foreign)]


@pytest.mark.parametrize("family", Family)
def test_the_listing_follows_every_change(namespace: Namespace, family: Family) -> None:
    """After each change the rules are those of a fresh start, but for choices that are idle."""
    generator = Generator(7)
    order = random.Random(7)
    cluster = generator.cluster()
    fixed = [kestrel(), service_cidr()]
    flags = ["--proxy-mode=nftables", CIDR]
    nodes = expectation(fixed, flags, NODE_ADDRESSES).nodes
    with plane(namespace, nodes[family]) as changing:
        for number in range(40):
            documents = [each for d in cluster.values() for each in d.documents()]
            meant = expectation([*fixed, *documents], flags, NODE_ADDRESSES)
            changing.put(meant.tables[family].entries.values())
            if number % 10 == 9:
                changing.resync()
            wanted = blocks(changing.text())
            found = blocks(list_table(namespace, family))
            idle = found if number % 10 == 9 else without_idle_choices(found, wanted)
            assert wanted == idle
            for _ in range(order.randint(1, 3)):
                _, cluster = generator.change(cluster)
