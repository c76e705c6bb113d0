"""The cluster at one moment, for tools: from manifests, or from an API server."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from kubeproxy.commands.question import Pod
from kubeproxy.errors import ApiServerError, OperatorError
from kubeproxy.inet import parse_address
from kubeproxy.model.cluster import Cluster
from kubeproxy.objects.meta import Kind
from kubeproxy.source.access import Access
from kubeproxy.source.documents import Document
from kubeproxy.source.events import Event, Reset, Synced, Upsert
from kubeproxy.source.manifestobjects import first_events
from kubeproxy.source.manifests import Loaded, load

if TYPE_CHECKING:
    from kubeproxy.source.apiserver import ApiServer

API_SERVER_WAIT = 60.0


class Snapshot(msgspec.Struct, frozen=True):
    """A cluster seen from one of its nodes, the pods that could be found, and remarks."""

    cluster: Cluster
    pods: tuple[Pod, ...] = ()
    remarks: tuple[str, ...] = ()


def choose_node(wanted: str, hostname: str, nodes: Sequence[str]) -> str:
    """The node to look from: the one asked for, this machine, or the only one there is."""
    if wanted:
        if nodes and wanted not in nodes:
            raise OperatorError(f"there is no Node {wanted}; there are: {', '.join(nodes)}")
        return wanted
    if hostname in nodes or not nodes:
        return hostname
    if len(nodes) == 1:
        return nodes[0]
    raise OperatorError(f"from which node? Give --node with one of: {', '.join(nodes)}")


def from_manifests(paths: Sequence[str], wanted: str, hostname: str) -> Snapshot:
    """The cluster that manifests describe."""
    loaded = load(paths)
    nodes = sorted(key.name for kind, key in loaded.objects if kind is Kind.NODE)
    name = choose_node(wanted, hostname, nodes)
    cluster = Cluster(name)
    remarks = [*_remarks(loaded, name, nodes)]
    for event in first_events(loaded.objects):
        remarks += _take(cluster, event)
    pods = (_pod(document) for document in loaded.documents if document.kind == "Pod")
    return Snapshot(cluster, tuple(pod for pod in pods if pod is not None), tuple(remarks))


def _remarks(loaded: Loaded, name: str, nodes: Sequence[str]) -> list[str]:
    remarks = [f"skipped: {problem}" for problem in loaded.problems]
    if name not in nodes:
        remarks.append(f"no Node {name} in the manifests: its addresses and zone are not known")
    return remarks


def _take(cluster: Cluster, event: Event) -> list[str]:
    """Bring an event into the cluster; what makes no sense comes back as remarks."""
    match event:
        case Upsert():
            touched = cluster.upsert(event.kind, event.object)
            return [f"{p.kind.value} {p.key}: {p.text}" for p in touched.problems]
        case Reset():
            cluster.reset(event.kind)
        case Synced():
            cluster.complete(event.kind)
        case _:
            cluster.delete(event.kind, event.key)
    return []


class _PodIP(msgspec.Struct, frozen=True):
    ip: str = ""


class _PodStatus(msgspec.Struct, frozen=True):
    pod_ip: str | None = msgspec.field(name="podIP", default=None)
    pod_ips: tuple[_PodIP, ...] | None = msgspec.field(name="podIPs", default=None)


class _PodMeta(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = "default"


class _PodObject(msgspec.Struct, frozen=True):
    metadata: _PodMeta = _PodMeta()
    status: _PodStatus | None = None


class _Named(msgspec.Struct, frozen=True):
    metadata: _PodMeta = _PodMeta()


class _PodList(msgspec.Struct, frozen=True):
    items: tuple[_PodObject, ...] = ()


class _NodeList(msgspec.Struct, frozen=True):
    items: tuple[_Named, ...] = ()


def _pod(document: Document) -> Pod | None:
    try:
        return _to_pod(msgspec.convert(document.body, _PodObject))
    except msgspec.ValidationError:
        return None


def _to_pod(pod: _PodObject) -> Pod:
    status = pod.status or _PodStatus()
    texts = [status.pod_ip or "", *(each.ip for each in status.pod_ips or ())]
    ips = dict.fromkeys(ip for ip in map(parse_address, texts) if ip is not None)
    return Pod(pod.metadata.namespace, pod.metadata.name, tuple(ips))


async def from_api_server(access: Access, wanted: str, hostname: str, pod: str) -> Snapshot:
    """The cluster that an API server tells of, and the Pods of that name."""
    from kubeproxy.source.apiserver import ApiServer, Settings  # noqa: PLC0415  # costly to import

    asking = ApiServer(access, Settings(node_name=""))
    nodes = await asking.get_json("/api/v1/nodes", (), _NodeList)
    name = choose_node(wanted, hostname, sorted(node.metadata.name for node in nodes.items))
    cluster = Cluster(name)
    remarks: list[str] = []
    known = asyncio.Event()

    def deliver(event: Event) -> None:
        remarks.extend(_take(cluster, event))
        if cluster.synced(*Kind):
            known.set()

    following = asyncio.ensure_future(ApiServer(access, Settings(node_name=name)).run(deliver))
    try:
        async with asyncio.timeout(API_SERVER_WAIT):
            await asyncio.wait(
                (following, waiting := asyncio.ensure_future(known.wait())),
                return_when=asyncio.FIRST_COMPLETED,
            )
    except TimeoutError:
        if not cluster.synced(Kind.SERVICE, Kind.ENDPOINT_SLICE):
            raise ApiServerError(
                f"{access.server} did not tell all Services and EndpointSlices within "
                f"{API_SERVER_WAIT:g} s"
            ) from None
        remarks.append("Nodes or ServiceCIDRs could not be read: what depends on them is missing")
    finally:
        waiting.cancel()
        following.cancel()
        await asyncio.gather(following, waiting, return_exceptions=True)
    return Snapshot(cluster, await _pods(asking, pod), tuple(remarks))


async def _pods(asking: "ApiServer", name: str) -> tuple[Pod, ...]:
    if not name:
        return ()
    query = (("fieldSelector", f"metadata.name={name}"),)
    pods = await asking.get_json("/api/v1/pods", query, _PodList)
    return tuple(map(_to_pod, pods.items))
