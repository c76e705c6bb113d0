"""The work of a full sync, which is not done -> differences, as the kernel's tools write them."""

from collections.abc import Iterator
from typing import assert_never

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.difference import Change, Difference, ordered_changes
from kubeproxy.dataplane.ipvs.names import IpSet, set_name
from kubeproxy.dataplane.ipvs.render import key_text, real_text, server_text
from kubeproxy.dataplane.ipvs.rules import missing_jumps
from kubeproxy.dataplane.ipvs.settings import DEVICE
from kubeproxy.dataplane.ipvs.work import Repair
from kubeproxy.dataplane.xtables_text import RuleTables
from kubeproxy.linux.netlink.ipvs import (
    AddReal,
    AddServer,
    Command,
    DeleteReal,
    DeleteServer,
    SetReal,
    SetServer,
)


def differences(repair: Repair, family: Family, *, has_device: bool) -> Iterator[Difference]:
    """What would be done. Real servers that only wait for their last connections are no part."""
    if not has_device:
        yield Difference(Change.ADD, f"device {DEVICE}")
    work = repair.work
    if work.rules:
        yield from _rule_differences(repair.wanted_rules, repair.found_rules)
    parts = repair.state.parts.items()
    owners = {each: str(name) for name, part in parts for each in part.objects()}
    for line in work.created_sets.splitlines():
        yield Difference(Change.ADD, f"ipset {line.removeprefix('create ')}")
    for change, members in ((Change.REMOVE, work.removed), (Change.ADD, work.added)):
        for set_, member in members:
            owner = owners.get((set_, member), "")
            yield Difference(change, f"ipset {set_name(set_, family)} {member}", owner)
    commands = [command for steps in work.servers.values() for command in steps.commands]
    for command in (*map(DeleteServer, sorted(work.gone)), *commands):
        yield _of_command(command, owners.get(command.key, ""))
    for change, addresses in ((Change.REMOVE, work.unbound), (Change.ADD, work.bound)):
        for address in addresses:
            owner = owners.get((IpSet.IPVS_IPS, address), "")
            yield Difference(change, f"address {address}/{family.bits} dev {DEVICE}", owner)


def _of_command(command: Command, owner: str) -> Difference:
    match command:
        case AddServer(key, server):
            text = f"virtual server {server_text(key, server)}"
            return Difference(Change.ADD, text, owner)
        case SetServer(key, server):
            text = f"virtual server {server_text(key, server)}"
            return Difference(Change.REPLACE, text, owner, "it is set otherwise")
        case DeleteServer(key):
            return Difference(Change.REMOVE, f"virtual server {key_text(key)}", owner)
        case AddReal(key, real):
            return Difference(Change.ADD, f"real server {real_text(key, real)}", owner)
        case SetReal(key, real) | DeleteReal(key, real):  # one drains before it goes
            return Difference(Change.REMOVE, f"real server {real_text(key, real)}", owner)
        case _:
            assert_never(command)


def _rule_differences(wanted: RuleTables, found: RuleTables) -> Iterator[Difference]:
    """What would be done to our chains, and to the jumps to them."""
    for table, chains in wanted.items():
        for chain, rules in chains.items():
            there = found[table].get(chain, [])
            if chain not in found[table]:
                yield Difference(Change.ADD, f"-t {table} -N {chain}")
            for change, place in ordered_changes(there, rules):
                rule = (there if change is Change.REMOVE else rules)[place]
                yield Difference(change, f"-t {table} {rule}")
    for jump in missing_jumps(found):
        yield Difference(Change.ADD, f"-t {jump.table} -I {jump.chain} {jump.rule}")
