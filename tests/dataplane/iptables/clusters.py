"""Clusters whose rules are compared with golden texts, in both families."""

from kubeproxy.base.inet import Family
from kubeproxy.table.entries import Table
from kubeproxy.table.node import NodeView
from lab.deploy import (
    ETP_LOCAL,
    ITP_LOCAL,
    NARROW_RANGES,
    RANGES,
    UDP,
    Address,
    Port,
    affinity,
    deploy,
    everywhere,
)
from world import Document, Mode, node, table_of

CHECKED: Document = {**ETP_LOCAL, "healthCheckNodePort": 32082}
CLUSTERS: dict[str, list[Document]] = {
    "nothing": [],
    "cluster-ip": [
        *deploy("cart", Address(21), "L1 R1 R2"),
        *deploy("dns", Address(22), "L1 L2", [Port(53, 53, protocol=UDP), Port(53, 5353)]),
        *deploy("closed", Address(23), ""),
    ],
    "node-port": [
        *deploy("front", everywhere(23), "L1 R1", [Port(node_port=31080)]),
        *deploy("closed", everywhere(28), "", [Port(node_port=31084)]),
    ],
    "local-policies": [
        *deploy("near", everywhere(24), "L1 R1", [Port(node_port=31082), Port(53, 53)], CHECKED),
        *deploy("far", everywhere(25), "R1 R2", [Port(node_port=31083)], ETP_LOCAL),
        *deploy("inner", Address(26), "L2 R1", spec=ITP_LOCAL),
        *deploy("inner-far", Address(27), "R1", spec=ITP_LOCAL),
        *deploy("inner-seen", everywhere(37), "L1 R1", spec=ITP_LOCAL),
        *deploy("zoned", everywhere(34), "L1@z-west R1@z-east R2@z-east", spec=ETP_LOCAL),
        *deploy("ending", everywhere(35), "L1:draining L2:stopped R1:draining", spec=ETP_LOCAL),
    ],
    "source-ranges": [
        *deploy("bank", everywhere(29), "L1 R2", [Port(node_port=31085)], RANGES),
        *deploy("vault", everywhere(30), "L1", [Port(node_port=31086)], NARROW_RANGES),
        *deploy("ruin", everywhere(38), "", [Port(node_port=31087)], NARROW_RANGES),
    ],
    "affinity": [
        *deploy("sticky", Address(33), "L1 L2 R1", spec=affinity(600)),
        *deploy("alone", Address(36), "R1", spec=affinity()),
    ],
}


def table(name: str, family: Family) -> Table:
    """The cluster of that name, compiled for kestrel."""
    return table_of(*CLUSTERS[name], family=family)


def kestrel(family: Family = Family.IPV4) -> NodeView:
    """The node in iptables mode, with default settings."""
    return node(Mode.IPTABLES, family)
