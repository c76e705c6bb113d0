"""The running daemon -> one Service with all that is known of it."""

from kubeproxy.base.inet import Family
from kubeproxy.cluster.objects.meta import ObjectKey
from kubeproxy.serve.http.pace import unhurried
from kubeproxy.serve.status import wire
from kubeproxy.serve.status.connections import Looks
from kubeproxy.serve.status.listing import looks
from kubeproxy.serve.status.live import Live
from kubeproxy.serve.status.ports import Port, endpoint_details, port_detail
from kubeproxy.table.compile import service_port_name


async def service_detail(live: Live, namespace: str, name: str) -> wire.ServiceDetail | None:
    """All that is known of a Service; None when nothing is proxied for it."""
    found = await looks(live)
    service = ObjectKey(namespace, name)
    ports = []
    for family in live.syncs:
        for port in _ports(live, family, service, found):
            endpoints = [each async for each in unhurried(endpoint_details(port))]
            ports.append(port_detail(port, endpoints))
    if not ports:
        return None
    return wire.ServiceDetail(
        mode=live.config.mode,
        node=live.cluster.node_name,
        namespace=namespace,
        service=name,
        counts_connections=live.traffic is not None,
        ports=tuple(ports),
    )


def _ports(live: Live, family: Family, service: ObjectKey, found: Looks) -> list[Port]:
    cluster, sync = live.cluster, live.syncs[family]
    conflicts = sync.builder.conflicts()
    ports = []
    for about in cluster.service_ports(family, service):
        name = service_port_name(service, about)
        entry = sync.builder.table.entries.get(name)
        left_out = "" if entry else sync.builder.excess.get(service, "")
        ports.append(
            Port(
                name=name,
                family=family,
                port=about,
                slices={} if left_out else cluster.slices(family, service),
                place=cluster.place,
                entry=entry,
                failed=sync.failed.get(name, left_out),
                balance=entry.balance.value if live.mode.balances and entry else "",
                conflicts=[each for each in conflicts if name in (each.loser, each.winner)],
                look=found.get(family),
            )
        )
    return ports


def namespaces_of(live: Live, name: str) -> list[str]:
    """The namespaces in which a Service of that name is proxied."""
    found = {
        key.namespace
        for family in live.syncs
        for key in live.cluster.services(family)
        if key.name == name
    }
    return sorted(found)


def all_services(live: Live) -> set[tuple[str, str]]:
    """Namespace and name of every Service that is proxied."""
    return {
        (key.namespace, key.name) for family in live.syncs for key in live.cluster.services(family)
    }
