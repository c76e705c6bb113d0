"""The desired state of the kernel, updated a service port at a time.

Addresses and members of sets are shared by service ports, so they are counted. A virtual server
belongs to one: where the address of a service is also one of the node's, and the port a node port,
the service that has the address wins, as in `decide`.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import msgspec

from kubeproxy.dataplane.ipvs.names import IpSet
from kubeproxy.dataplane.ipvs.plan import Member, Part, PlanSetup, Server, plan
from kubeproxy.linux.netlink.ipvs import ServerKey
from kubeproxy.table.diff import Changes
from kubeproxy.table.entries import ServicePortName, Table

_T = TypeVar("_T")


class ServerChange(NamedTuple):
    """A virtual server that changed; None where it should not exist."""

    key: ServerKey
    before: Server | None
    after: Server | None


class StateChange(msgspec.Struct, frozen=True):
    """What changed."""

    servers: tuple[ServerChange, ...] = ()
    added: tuple[Member, ...] = ()
    removed: tuple[Member, ...] = ()


class DesiredState:
    """The desired state of one family. It changes in place, at the cost of what changes."""

    def __init__(self, setup: PlanSetup) -> None:
        self.setup = setup
        self.parts: dict[ServicePortName, Part] = {}
        self.members: dict[IpSet, Counter[str]] = {set_: Counter() for set_ in IpSet}
        self._servers: dict[ServerKey, Server] = {}
        self._node_ports: dict[ServerKey, Server] = {}
        self._denials: Counter[ServerKey] = Counter()

    def server(self, key: ServerKey) -> Server | None:
        """The desired virtual server; None when there should be none."""
        return self._servers.get(key) or self._node_ports.get(key)

    def servers(self) -> Mapping[ServerKey, Server]:
        """All virtual servers."""
        return {**self._node_ports, **self._servers}

    def denials(self) -> tuple[ServerKey, ...]:
        """The load balancers' addresses that this node may not use, in a fixed order."""
        return tuple(sorted(self._denials))

    def filled(self) -> frozenset[IpSet]:
        """The sets that have members."""
        return frozenset(set_ for set_, members in self.members.items() if members)

    def replace(self, wanted: Mapping[ServicePortName, Part | None]) -> StateChange:
        """Replace what these service ports want, None for nothing; the change that makes."""
        servers: dict[ServerKey, Server | None] = {}
        members: dict[Member, bool] = {}
        for name, part in wanted.items():
            old = self.parts.pop(name, Part())
            new = part or Part()
            for touched in (old, new):
                for key in touched.server_keys():
                    servers.setdefault(key, self.server(key))
                for set_, member in touched.members:
                    members.setdefault((set_, member), member in self.members[set_])
            self._drop(old)
            self._put(new)
            if part is not None:
                self.parts[name] = part
        changes = (ServerChange(key, before, self.server(key)) for key, before in servers.items())
        now = {(set_, member): member in self.members[set_] for set_, member in members}
        return StateChange(
            tuple(change for change in changes if change.before != change.after),
            tuple(member for member, was in members.items() if now[member] and not was),
            tuple(member for member, was in members.items() if was and not now[member]),
        )

    def _put(self, part: Part) -> None:
        self._servers.update(part.servers)
        self._node_ports.update(part.node_ports)
        self._denials.update(part.denials)
        for set_, member in part.members:
            self.members[set_][member] += 1

    def _drop(self, part: Part) -> None:
        both = ((self._servers, part.servers), (self._node_ports, part.node_ports))
        for held, dropped in both:
            for key, server in dropped.items():
                # In one update another may have got it before its former owner is dropped.
                if held.get(key) is server:
                    del held[key]
        for set_, member in part.members:
            _count_down(self.members[set_], member)
        for key in part.denials:
            _count_down(self._denials, key)


def _count_down(counter: Counter[_T], element: _T) -> None:
    counter[element] -= 1
    if not counter[element]:
        del counter[element]


def state_of(table: Table, setup: PlanSetup) -> DesiredState:
    """The desired state of all service ports."""
    state = DesiredState(setup)
    state.replace({name: _part(table, name, setup) for name in table.entries})
    return state


def update_state(
    state: DesiredState, table: Table, changes: Changes, setup: PlanSetup
) -> StateChange:
    """Update the state to the table and the setup; the change that makes.

    Another setup, such as another address of the node, matters to those with external frontends.
    """
    touched = (*changes.removed, *changes.added, *(after for _, after in changes.changed))
    names = dict.fromkeys(entry.name for entry in touched)
    if changes.health_checks:
        names |= {name: None for name in table.entries if name.owner in changes.health_checks}
    if setup != state.setup:
        names |= {
            name: None
            for name, entry in table.entries.items()
            if any(frontend.kind.external for frontend in entry.frontends)
        }
        state.setup = setup
    return state.replace({name: _part(table, name, setup) for name in names})


def _part(table: Table, name: ServicePortName, setup: PlanSetup) -> Part | None:
    entry = table.entries.get(name)
    return None if entry is None else plan(entry, setup, table.health_check_port(name))
