"""All that a sync writes, as a value."""

from collections.abc import Mapping

import msgspec

from kubeproxy.dataplane.ipvs.plan import Member
from kubeproxy.dataplane.ipvs.steps import Steps
from kubeproxy.linux.netlink.ipvs import ServerKey


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
