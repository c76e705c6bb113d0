"""The running daemon -> lists: Services, and the connections that they have in a second.

Made in the event loop in steps of about a millisecond, so that no sync waits for somebody who
looks. Between the steps only names are held on to: thousands of new objects would call the
garbage collector. What is gone by the next step is left out.
"""

import asyncio
import time

import msgspec

from kubeproxy.cluster.objects.meta import ObjectKey
from kubeproxy.serve.http.pace import in_order, unhurried
from kubeproxy.serve.status import wire
from kubeproxy.serve.status.connections import Looks, busy, together
from kubeproxy.serve.status.live import Live
from kubeproxy.serve.status.report import timestamp
from kubeproxy.serve.status.services import Service, Sort, Troubles, losers, summary, wanted
from kubeproxy.table.entries import ServiceName


async def looks(live: Live) -> Looks:
    """The connections of all services; nothing where the mode does not count them."""
    if live.traffic is None:
        return {}
    async with live.one_reader:
        return await asyncio.to_thread(live.traffic.looks)


async def rates(live: Live) -> wire.Rates:
    """Connections per second of the Services that have any."""
    found = await looks(live)
    services: dict[str, float] = {}
    for look in found.values():
        async for name, rate in unhurried(busy(look)):
            service = f"{name.namespace}/{name.service}"
            services[service] = services.get(service, 0.0) + rate
    seconds = max((look.seconds for look in found.values()), default=0.0)
    return wire.Rates(timestamp(time.time()), round(seconds, 3), services)


class Search(msgspec.Struct, frozen=True):
    """Which Services, in what order, and how many at most; 0 is all."""

    text: str = ""
    sort: Sort = Sort.NAME
    limit: int = 500


async def service_list(live: Live, search: Search) -> wire.ServiceList:
    """The Services that are looked for."""
    found = await looks(live)
    services = await _services(live)
    matching = await _matching(live, services, search.text)
    shown = await _sorted(live, matching, found, search)
    troubles = {
        family: Troubles(dict(sync.failed), losers(sync.builder.conflicts()))
        for family, sync in live.syncs.items()
    }
    services_now = (_service(live, key) for key in shown)
    lines = [
        summary(each, found, troubles) async for each in unhurried(services_now) if each.ports
    ]
    return wire.ServiceList(
        mode=live.config.mode,
        total=len(services),
        matching=len(matching),
        counts_connections=live.traffic is not None,
        services=tuple(lines),
    )


async def _services(live: Live) -> list[ObjectKey]:
    """All Services that are programmed."""
    found: dict[ObjectKey, None] = {}
    for sync in live.syncs.values():
        async for key in unhurried(tuple(sync.builder.services())):
            found[key] = None
    return list(found)


def _service(live: Live, key: ObjectKey) -> Service:
    """A Service, with what the tables have of it now."""
    ports = [
        (family, entry)
        for family, sync in live.syncs.items()
        for entry in sync.builder.entries_of(key)
    ]
    return Service(ServiceName(key.namespace, key.name), ports)


async def _matching(live: Live, services: list[ObjectKey], text: str) -> list[ObjectKey]:
    if not text.strip():
        return services
    asked, slices = wanted(text), live.cluster.slices
    return [
        key
        async for key in unhurried(services)
        if asked.fits(_service(live, key))
        or any(asked.is_among(slices(family, key).values()) for family in live.syncs)
    ]


async def _sorted(
    live: Live, services: list[ObjectKey], found: Looks, search: Search
) -> list[ObjectKey]:
    if search.sort is Sort.NAME:
        return await in_order(services, lambda key: key, search.limit)
    which = 0 if search.sort is Sort.CONNECTIONS else 1
    most = {
        key: together(found, _service(live, key).names())[which] or 0
        async for key in unhurried(services)
    }
    return await in_order(services, lambda key: (-most[key], key), search.limit)
