"""What a plan says, as values: for programs as JSON, and for the lines of the terminal."""

from enum import Enum

import msgspec

from kubeproxy.plan.outcome import Effect


class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    """What is sent to programs."""


class Change(Enum):
    """What happens to a Service."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"
    SAME = "same"


class Notice(_Wire, frozen=True):
    """Clients that notice something, at one kind of destination.

    `at` are the destinations. `lost` and `gained` are endpoints. `before` and `after` are what the
    clients get, in words.
    """

    effect: Effect
    place: str
    at: tuple[str, ...]
    clients: tuple[str, ...]
    before: str = ""
    after: str = ""
    lost: tuple[str, ...] = ()
    gained: tuple[str, ...] = ()


class ServicePlan(_Wire, frozen=True):
    """What a change does to one Service.

    `objects` is how many objects are written to the kernel for it. `conflicts` are frontends that
    it claims after the change and another Service has. `left_out` says what of it is not served.
    """

    namespace: str
    service: str
    change: Change
    notices: tuple[Notice, ...] = ()
    frontends_added: tuple[str, ...] = ()
    frontends_removed: tuple[str, ...] = ()
    endpoints_added: tuple[str, ...] = ()
    endpoints_removed: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    left_out: str = ""
    objects: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to say."""
        return self == ServicePlan(self.namespace, self.service, Change.SAME)


class Habit(_Wire, frozen=True):
    """What two modes, or two configurations, do in different ways, whatever the Service."""

    subject: str
    before: str
    after: str


class ForeignRule(_Wire, frozen=True):
    """A rule of another program that relies on what the mode of before writes, and why."""

    rule: str
    why: str


class Plan(_Wire, frozen=True):
    """All of it. `settings` are fields of the configuration that differ."""

    node: str
    mode_before: str
    mode_after: str
    services: tuple[ServicePlan, ...] = ()
    addresses: tuple[Notice, ...] = ()
    settings: tuple[Habit, ...] = ()
    habits: tuple[Habit, ...] = ()
    foreign_rules: tuple[ForeignRule, ...] = ()
    remarks: tuple[str, ...] = ()
    of_services: int = 0

    @property
    def noticed(self) -> bool:
        """Whether any client would notice anything."""
        by_services = any(each.notices for each in self.services)
        return by_services or bool(self.addresses or self.foreign_rules)

    @property
    def objects(self) -> int:
        """How many objects are written to the kernel."""
        return sum(each.objects for each in self.services)
