"""All that a sync writes, and what of it the kernel refused."""

import errno
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from kubeproxy.dataplane.ipvs.plan import Member, PlanSetup, plan
from kubeproxy.dataplane.ipvs.state import DesiredState
from kubeproxy.dataplane.ipvs.steps import DRAINING, Steps, steps
from kubeproxy.dataplane.xtables_text import RuleTables
from kubeproxy.linux.netlink.ipvs import (
    Command,
    DeleteReal,
    DeleteServer,
    ServerKey,
    SetReal,
    command_request,
)
from kubeproxy.table.entries import Entry, ServicePortName

_IS_GONE = {errno.ESRCH, errno.ENOENT}

Failures = dict[ServerKey | Member, str]
"""Virtual servers and members of sets that the kernel refused, with the reason."""


class Work(msgspec.Struct, frozen=True):
    """What a sync writes; `gone` are virtual servers that go."""

    created_sets: str = ""
    added: tuple[Member, ...] = ()
    removed: tuple[Member, ...] = ()
    rules: str = ""
    servers: Mapping[ServerKey, Steps] = {}
    gone: tuple[ServerKey, ...] = ()
    bound: tuple[str, ...] = ()
    unbound: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """How many kernel objects it writes."""
        lists = (self.added, self.removed, self.gone, self.bound, self.unbound)
        commands = sum(len(each.commands) for each in self.servers.values())
        lines = self.created_sets.count("\n") + self.rules.count("\n")
        return commands + lines + sum(map(len, lists))


class Repair(NamedTuple):
    """The work of a full sync, and what it was derived from."""

    work: Work
    state: DesiredState
    wanted_rules: RuleTables
    found_rules: RuleTables


def failed_service_ports(failures: Failures, state: DesiredState) -> dict[ServicePortName, str]:
    """The service ports that are concerned, each with one of the reasons."""
    found: dict[ServicePortName, str] = {}
    for name, part in state.parts.items() if failures else ():
        reasons = [failures[each] for each in part.objects() if each in failures]
        if reasons:
            found[name] = reasons[0]
    return found


def write_alone(setup: PlanSetup, entry: Entry) -> None:
    """Encode all of an entry, to see whether that can be done."""
    part = plan(entry, setup)
    for key, server in (part.servers | part.node_ports).items():
        for command in steps(key, server, None, frozenset()).commands:
            command_request(0, command)


def is_fine(command: Command, error: int) -> bool:
    """Whether it is no failure, because what should go, or get no more connections, is gone."""
    removes = isinstance(command, DeleteServer | DeleteReal) or (
        isinstance(command, SetReal) and command.weight == DRAINING
    )
    return removes and error in _IS_GONE
