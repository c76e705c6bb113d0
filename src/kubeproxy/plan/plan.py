"""Two sides -> the plan. It is made a Service at a time, so that progress can be shown."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from kubeproxy.base.inet import Family
from kubeproxy.plan.compare import address_notices, service_plan, sides, touched
from kubeproxy.plan.foreign import Reliance, foreign_rules
from kubeproxy.plan.outcome import HARM
from kubeproxy.plan.settings import habits, settings
from kubeproxy.plan.side import Side
from kubeproxy.plan.wire import Plan, ServicePlan
from kubeproxy.table.entries import ServicePortName


class Progress(NamedTuple):
    """How many of the Services are done."""

    done: int
    of: int


def make_plan(
    before: Side, after: Side, listings: Iterable[str] = (), remarks: Sequence[str] = ()
) -> Generator[Progress, None, Plan]:
    """The plan; `listings` are rules that the node has now."""
    both = sides(before, after)
    services = touched(both)
    found: list[ServicePlan] = []
    for number, (name, ports) in enumerate(services.items()):
        yield Progress(number, len(services))
        each = service_plan(both, name, ports)
        if not each.is_empty:
            found.append(each)
    reliance = Reliance(
        1 << before.config.masquerade_bit,
        1 << after.config.masquerade_bit,
        loses_chains=before.mode.uses_iptables and not after.mode.uses_iptables,
    )
    return Plan(
        node=after.nodes[Family.IPV4].name,
        mode_before=before.mode.name,
        mode_after=after.mode.name,
        services=tuple(sorted(found, key=_harm)),
        addresses=tuple(address_notices(both, services.values())),
        settings=tuple(settings(before, after)),
        habits=tuple(habits(before, after)),
        foreign_rules=tuple(foreign_rules(listings, reliance)),
        remarks=(*remarks, *_left_behind(before, after)),
        of_services=len({name.owner for each in (before, after) for name in _ports(each)}),
    )


def _ports(side: Side) -> Iterable[ServicePortName]:
    return chain.from_iterable(table.entries for table in side.tables.values())


def _left_behind(before: Side, after: Side) -> Iterator[str]:
    """What of the mode of before stays: the modes that use iptables keep each other's rules."""
    both = before.mode.uses_iptables and after.mode.uses_iptables
    if both and before.mode.name != after.mode.name:
        yield (
            f"what {before.mode.name} mode has in the kernel is removed with kube-proxy --cleanup"
            f" before {after.mode.name} mode starts: it does not remove that by itself"
        )


def _harm(plan: ServicePlan) -> tuple[int, str, str]:
    """The most harmful first."""
    worst = min((HARM[each.effect] for each in plan.notices), default=len(HARM))
    return worst, plan.namespace, plan.service
