"""All service ports of the running proxy, as a trace watches them."""

from collections.abc import Iterator

from kubeproxy.base.inet import Family
from kubeproxy.serve.status.wire import EndpointDetail, FrontendDetail, PortDetail
from kubeproxy.serve.traffic.series import KIND
from kubeproxy.table.entries import Entry, Table
from kubeproxy.tools.trace.connections import Watched


def watched_table(table: Table) -> Iterator[Watched]:
    """The service ports of all Services. Of endpoints elsewhere the node is not known."""
    for name, entry in table.entries.items():
        text = f"{name.namespace}/{name.service}"
        yield Watched(f"{text}:{name.port}" if name.port else text, _port(entry, table.family))


def _port(entry: Entry, family: Family) -> PortDetail:
    return PortDetail(
        name=entry.name.port,
        protocol=entry.name.protocol.name,
        ip_family=family.value,
        frontends=tuple(FrontendDetail(KIND[f.kind], f.address, f.port) for f in entry.frontends),
        endpoints=tuple(_endpoints(entry)),
        internal_traffic_policy=entry.internal.outside.scope.value,
        external_traffic_policy=entry.external.outside.scope.value,
        source_ranges=None if entry.source_ranges is None else (),
    )


def _endpoints(entry: Entry) -> Iterator[EndpointDetail]:
    for each in dict.fromkeys((*entry.cluster, *entry.local)):
        yield EndpointDetail(
            address=each.address,
            port=each.port,
            node="",
            on_this_node=each.local,
            ready=True,
            serving=True,
            terminating=False,
            used=True,
        )
