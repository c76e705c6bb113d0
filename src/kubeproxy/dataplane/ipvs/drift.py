"""How far the kernel is from what a full sync would leave; nothing is written."""

from kubeproxy.dataplane.difference import Change, Difference
from kubeproxy.dataplane.ipvs.apply import Ipvs
from kubeproxy.dataplane.ipvs.difference import differences, owners_of, rule_differences
from kubeproxy.dataplane.ipvs.parse import listed_rules
from kubeproxy.dataplane.ipvs.settings import DEVICE
from kubeproxy.linux.links import device_index
from kubeproxy.linux.xtables import Xtables
from kubeproxy.table.entries import Table
from kubeproxy.table.node import Node


def drift(plane: Ipvs, programs: Xtables, table: Table, node: Node) -> list[Difference]:
    """The differences. Real servers that only wait for their last connections are none."""
    state, rules, work = plane.survey(table, node)
    found = []
    if not device_index(DEVICE):
        found.append(Difference(Change.ADD, f"device {DEVICE}"))
    if work.rules:
        there = {name: listed_rules(programs.save(name)) for name in rules}
        found += rule_differences(rules, there)
    return found + list(differences(work, owners_of(state), table.family))
