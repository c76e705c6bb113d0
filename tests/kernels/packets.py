"""The cluster of the field job, the packets that are sent in it, and what becomes of each."""

from collections.abc import Callable

import msgspec

from kubeproxy.base.inet import Family, Protocol
from lab.deploy import (
    ETP_LOCAL,
    ITP_LOCAL,
    RANGES,
    SCTP,
    TCP,
    UDP,
    Address,
    Port,
    affinity,
    deploy,
    everywhere,
)
from lab.outcome import Fate, Outcome
from lab.plan import HOSTS, cluster_ip, external_ip, vip
from lab.stage import Lab
from world import NODE_IP, Document, Mode

REFUSED = (Fate.UNREACHABLE, Fate.REFUSED)


def cluster() -> list[Document]:
    """A Service of each kind. The first is the one that is changed."""
    return [
        *deploy("cart", Address(21), "L1 R1"),
        *deploy(
            "front", everywhere(23), "L1 R1", [Port(node_port=31080), Port(53, 53, 31081, UDP)]
        ),
        *deploy("near", everywhere(24), "L1 R1", [Port(node_port=31082)], ETP_LOCAL),
        *deploy("far", everywhere(25), "R1 R2", [Port(node_port=31083)], ETP_LOCAL),
        *deploy("inner", Address(26), "L2 R1", spec=ITP_LOCAL),
        *deploy("lonely", Address(27), "L1"),
        *deploy("closed", everywhere(28), "", [Port(node_port=31084)]),
        *deploy("bank", everywhere(29), "L1 R2", [Port(node_port=31085)], RANGES),
        *deploy("sticky", everywhere(33), "L1 L2 R1", [Port(node_port=31089)], affinity()),
        *deploy("phone", everywhere(37), "L1 R1", [Port(81, 8081, 31090, SCTP)]),
    ]


class Packet(msgspec.Struct, frozen=True):
    """Who sends it where, and what is expected.

    `by` names the endpoints that may answer; without any it is refused, or dropped when `dropped`.
    `keeps` says whether the endpoint sees the client's own address; None leaves that open.
    `in_ipvs` names the endpoints that answer in ipvs mode, if these are others.
    """

    name: str
    source: str
    destination: Callable[[Family], str]
    port: int = 80
    protocol: Protocol = TCP
    by: str = ""
    keeps: bool | None = None
    dropped: bool = False
    in_ipvs: str = ""


def _of(address: Callable[[int, Family], str], number: int) -> Callable[[Family], str]:
    return lambda family: address(number, family)


PACKETS = (
    Packet("cluster IP from a pod", "P", _of(cluster_ip, 21), by="L1 R1", keeps=True),
    Packet("cluster IP from the host", "H", _of(cluster_ip, 21), by="L1 R1"),
    Packet("node port", "X", NODE_IP.__getitem__, 31080, by="L1 R1", keeps=False),
    Packet("load balancer", "X", _of(vip, 23), by="L1 R1", keeps=False),
    Packet("external IP", "X", _of(external_ip, 23), by="L1 R1", keeps=False),
    Packet("a client in the source ranges", "X", _of(vip, 29), by="L1 R2"),
    Packet("a client outside the source ranges", "Y", _of(vip, 29), dropped=True),
    Packet("policy Local keeps the client", "X", _of(vip, 24), by="L1", keeps=True),
    Packet(
        "policy Local without a local endpoint", "X", _of(vip, 25), dropped=True, in_ipvs="R1 R2"
    ),
    Packet("node port of policy Local", "X", NODE_IP.__getitem__, 31082, by="L1", keeps=True),
    Packet("internal policy Local", "P", _of(cluster_ip, 26), by="L2"),
    Packet("hairpin", "L1", _of(cluster_ip, 27), by="L1", keeps=False),
    Packet("no endpoints", "P", _of(cluster_ip, 28)),
    Packet("UDP", "P", _of(cluster_ip, 23), 53, UDP, by="L1 R1"),
    Packet("UDP to a node port", "X", NODE_IP.__getitem__, 31081, UDP, by="L1 R1"),
    Packet("SCTP", "X", _of(vip, 37), 81, SCTP, by="L1 R1"),
)


def dialled(lab: Lab, packet: Packet, family: Family) -> None:
    """Send it, and fail unless it gets what is expected."""
    destination = packet.destination(family)
    outcome = lab.dial(packet.source, destination, packet.port, packet.protocol)
    by = packet.in_ipvs if lab.variant.mode is Mode.IPVS and packet.in_ipvs else packet.by
    if not by:
        expected = (Fate.SILENT,) if packet.dropped else REFUSED
        assert outcome.fate in expected, f"{outcome}, instead of {expected[0].value}"
        return
    assert outcome.who in by.split(), f"{outcome}, instead of one of {by}"
    if packet.keeps is not None:
        kept = _seen(outcome) == HOSTS[packet.source].address(family)
        assert kept == packet.keeps, f"{outcome}: the client's address was kept: {kept}"


def same_endpoint(lab: Lab, family: Family) -> None:
    """All connections of a client to a service with affinity have one endpoint."""
    found = {lab.dial("X", vip(33, family), 80).who for _ in range(8)}
    assert len(found) == 1, found
    assert found <= {"L1", "L2", "R1"}, found


def _seen(outcome: Outcome) -> str:
    return outcome.saw.address if outcome.saw is not None else ""
