"""A plan as lines: what harms most comes first, and what many Services have in common once."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from kubeproxy.plan.outcome import HARM, HARMFUL, SENTENCES, Effect
from kubeproxy.plan.wire import Change, Notice, Plan, ServicePlan
from kubeproxy.tools.layout import Line, Span, Style, line, prose

_ALIKE: Final = 4
"""So many Services of which the same is to be said are told together."""
_EVERYBODY: Final = ("all",)


class _Told(NamedTuple):
    """What notices of several Services have in common."""

    effect: Effect
    place: str
    clients: tuple[str, ...]


def lines(plan: Plan, width: int | None, limit: int) -> Iterator[Line]:
    """The whole plan; lists have no more than so many names, 0 is all."""
    yield line(Span(_title(plan), Style.BOLD))
    common = _common(plan.services)
    for told, services in common.items():
        yield line()
        yield from _together(told, services, width, limit)
    for service in plan.services:
        own = [each for each in service.notices if _told(each) not in common]
        if own or service.change is not Change.SAME or service.conflicts or service.left_out:
            yield line()
            yield from _service(service, own, width, limit)
    yield from _addresses(plan, width, limit)
    yield from _of_node(plan, width)
    yield line()
    yield from prose(_summary(plan), width, style=Style.BOLD)


def _title(plan: Plan) -> str:
    if plan.mode_before == plan.mode_after:
        return f"Plan for node {plan.node} in {plan.mode_after} mode (nothing is written)"
    return (
        f"Plan for node {plan.node}: from {plan.mode_before} to {plan.mode_after} mode"
        " (nothing is written)"
    )


def _summary(plan: Plan) -> str:
    noticed = [each for each in plan.services if each.notices]
    harmed = [each for each in noticed if any(n.effect in HARMFUL for n in each.notices)]
    calm = plan.of_services - len(noticed)
    parts = [
        f"{_count(len(harmed), 'Service')} would break something for clients",
        f"{len(noticed) - len(harmed):,} would change for them",
        f"{calm:,} of {plan.of_services:,} would stay as {'it is' if calm == 1 else 'they are'}",
    ]
    if not noticed:
        parts = [f"No client of any of {_count(plan.of_services, 'Service')} would notice"]
    written = f"{_count(plan.objects, 'object')} would be written to the kernel"
    return f"{'; '.join(parts)}. {written}."


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


# --- Services ---------------------------------------------------------------------------------


def _told(notice: Notice) -> _Told:
    return _Told(notice.effect, notice.place, notice.clients)


def _common(services: Iterable[ServicePlan]) -> dict[_Told, list[tuple[str, Notice]]]:
    """What many Services have in common, the most harmful first."""
    found: dict[_Told, dict[str, Notice]] = {}
    for service in services:
        for notice in service.notices:
            name = f"{service.namespace}/{service.service}"
            found.setdefault(_told(notice), {}).setdefault(name, notice)
    many = {told: list(of.items()) for told, of in found.items() if len(of) >= _ALIKE}
    return dict(sorted(many.items(), key=lambda item: HARM[item[0].effect]))


def _together(
    told: _Told, services: Sequence[tuple[str, Notice]], width: int | None, limit: int
) -> Iterator[Line]:
    example = services[0][1]
    yield line(
        Span(_count(len(services), "Service"), Style.CYAN),
        ": ",
        Span(SENTENCES[told.effect], _style(told.effect)),
    )
    yield from prose(f"at the {told.place}, {_for(told.clients)}", width, "    ")
    yield from _was(example, width, "such as " if len(services) > 1 else "")
    names = _some([name for name, _ in services], limit)
    yield from prose(f"such as {example.at[0]}; of {names}", width, "    ", Style.DIM)


def _service(
    service: ServicePlan, own: Sequence[Notice], width: int | None, limit: int
) -> Iterator[Line]:
    written = f", {_count(service.objects, 'object')} written" if service.objects else ""
    happens = "" if service.change is Change.SAME else f"  {service.change.value}{written}"
    yield line(Span(f"{service.namespace}/{service.service}", Style.CYAN), happens)
    yield from _notices(own, width, limit)
    for conflict in service.conflicts:
        yield from prose(f"conflict: {conflict}", width, "  ", Style.RED)
    if service.left_out:
        yield from prose(f"not served: {service.left_out}", width, "  ", Style.RED)
    for policy in service.policies:
        yield from prose(f"~ {policy}", width, "  ")
    for sign, style, names in (
        ("+ frontends", Style.GREEN, service.frontends_added),
        ("- frontends", Style.RED, service.frontends_removed),
        ("+ endpoints", Style.GREEN, service.endpoints_added),
        ("- endpoints", Style.RED, service.endpoints_removed),
    ):
        if names:
            yield from prose(f"{sign} {_some(names, limit)}", width, "  ", style)


def _notices(found: Iterable[Notice], width: int | None, limit: int) -> Iterator[Line]:
    """What is noticed, once for each effect, and what it was and becomes once for all places."""
    for effect, of_effect in groupby(found, lambda each: each.effect):
        sign = "!" if effect in HARMFUL else "*"
        yield line("  ", Span(f"{sign} {SENTENCES[effect]}", _style(effect)))
        alike: dict[tuple[str, str], list[Notice]] = {}
        for notice in of_effect:
            alike.setdefault((notice.before, notice.after), []).append(notice)
        for notices in alike.values():
            yield from _was(notices[0], width)
            for notice in notices:
                yield from _where(notice, width, limit)


def _where(notice: Notice, width: int | None, limit: int) -> Iterator[Line]:
    where = f"{notice.place} {_some(notice.at, limit)}"
    yield from prose(f"{where}, {_for(notice.clients)}", width, "      ")
    for what, names in (("no longer", notice.lost), ("new", notice.gained)):
        if names and notice.effect in _ABOUT_ENDPOINTS:
            yield from prose(f"{what}: {_some(names, limit)}", width, "      ", Style.DIM)


_ABOUT_ENDPOINTS: Final = frozenset(
    {Effect.ELSEWHERE, Effect.FEWER, Effect.MORE, Effect.FLOWS_CUT}
)


def _was(notice: Notice, width: int | None, such_as: str = "") -> Iterator[Line]:
    if notice.before or notice.after:
        text = f"{such_as}{notice.before} -> {notice.after}"
        yield from prose(text, width, "    ", Style.DIM)


def _for(clients: tuple[str, ...]) -> str:
    return "for all clients" if clients == _EVERYBODY else f"for {', '.join(clients)}"


def _some(names: Sequence[str], limit: int) -> str:
    shown = names[:limit] if limit else names
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def _style(effect: Effect) -> Style:
    if effect in HARMFUL:
        return Style.RED
    return Style.GREEN if HARM[effect] >= HARM[Effect.MORE] else Style.YELLOW


# --- the node ---------------------------------------------------------------------------------


def _addresses(plan: Plan, width: int | None, limit: int) -> Iterator[Line]:
    if plan.addresses:
        yield line()
        yield line(Span("Addresses of Services, besides their ports", Style.CYAN))
    yield from _notices(plan.addresses, width, limit)


def _of_node(plan: Plan, width: int | None) -> Iterator[Line]:
    if plan.foreign_rules:
        yield line()
        yield line(Span("Rules of other programs that rely on this mode", Style.CYAN))
    for each in plan.foreign_rules:
        yield from prose(f"! {each.rule}", width, "  ", Style.RED)
        yield from prose(each.why, width, "      ")
    for title, found in (
        ("What the modes do in different ways", plan.habits),
        ("Settings", plan.settings),
    ):
        if found:
            yield line()
            yield line(Span(title, Style.CYAN))
        for habit in found:
            yield from prose(f"{habit.subject}: {habit.before} -> {habit.after}", width, "  ")
    if plan.remarks:
        yield line()
        yield line(Span("Assumed", Style.CYAN))
    for remark in plan.remarks:
        yield from prose(remark, width, "  ")
