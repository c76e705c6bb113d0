"""The cluster at one moment, for tools: from manifests, or from an API server."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from kubeproxy.base.errors import ApiServerError, OperatorError
from kubeproxy.base.inet import parse_address
from kubeproxy.cluster.client.access import Access
from kubeproxy.cluster.events import Event
from kubeproxy.cluster.manifests.documents import Document
from kubeproxy.cluster.manifests.objects import first_events
from kubeproxy.cluster.manifests.source import ManifestContents, load
from kubeproxy.cluster.model.cluster import Cluster
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.explain.question import Pod, find_pods

if TYPE_CHECKING:
    from kubeproxy.cluster.watch.apiserver import ApiServer

API_SERVER_WAIT = 60.0
OPTIONAL_WAIT = 3.0
"""How long to wait for what can be missing: older clusters have no ServiceCIDRs."""

SHOWN_NODES = 10


class Snapshot(msgspec.Struct, frozen=True):
    """A cluster seen from one of its nodes, the pods that could be found, and remarks."""

    cluster: Cluster
    pods: tuple[Pod, ...] = ()
    remarks: tuple[str, ...] = ()


class Viewpoint(msgspec.Struct, frozen=True):
    """How to look at a cluster.

    `node` is the node to look from, "" when it is not given; `hostname` is this machine; `pod` is
    the sender, as [NAMESPACE/]NAME, or "" when it is no pod.
    """

    node: str = ""
    hostname: str = ""
    pod: str = ""
    allow_external_ips: bool = True


def choose_node(wanted: Viewpoint, nodes: Sequence[str], pods: Sequence[Pod]) -> str:
    """The node to look from: the one asked for, the pod's, this machine, or the only one."""
    if wanted.node:
        if nodes and wanted.node not in nodes:
            raise OperatorError(f"there is no Node {wanted.node}; there are: {_shown(nodes)}")
        return wanted.node
    of_pods = {pod.node for pod in find_pods(wanted.pod, pods)}
    if len(of_pods) == 1 and of_pods.issubset(nodes):
        return of_pods.pop()
    if wanted.hostname in nodes or not nodes:
        return wanted.hostname
    if len(nodes) == 1:
        return nodes[0]
    raise OperatorError(f"on which node is the packet? Give --node with one of: {_shown(nodes)}")


def _shown(nodes: Sequence[str]) -> str:
    more = len(nodes) - SHOWN_NODES
    return ", ".join(nodes[:SHOWN_NODES]) + (f" and {more} more" if more > 0 else "")


def from_manifests(paths: Sequence[str], wanted: Viewpoint) -> Snapshot:
    """The cluster that manifests describe."""
    loaded = load(paths)
    nodes = sorted(key.name for kind, key in loaded.objects if kind is Kind.NODE)
    found = (_pod(document) for document in loaded.documents if document.kind == "Pod")
    pods = tuple(pod for pod in found if pod is not None)
    name = choose_node(wanted, nodes, pods)
    cluster = Cluster(name, allow_external_ips=wanted.allow_external_ips)
    for event in first_events(loaded.objects):
        cluster.apply(event)
    return Snapshot(cluster, pods, (*_remarks(loaded, name, nodes), *_invalid(cluster)))


def _remarks(loaded: ManifestContents, name: str, nodes: Sequence[str]) -> Iterator[str]:
    """What an answer from these manifests cannot be relied on for."""
    for problem in loaded.problems:
        yield f"skipped: {problem}"
    for twice in loaded.duplicates:
        where = f"in {twice.ignored} and in {twice.used}"
        yield f"{twice.kind.value} {twice.key} is {where}: the latter counts"
    if name not in nodes:
        yield f"no Node {name} in the manifests: its addresses and zone are not known"
    if not any(kind is Kind.ENDPOINT_SLICE for kind, _ in loaded.objects):
        yield "no EndpointSlices in the manifests: no Service has endpoints"


def _invalid(cluster: Cluster) -> Iterator[str]:
    """The invalid parts of objects."""
    for problems in cluster.problems.values():
        yield from (f"{each.kind.value} {each.key}: {each.text}" for each in problems)


class _PodIP(msgspec.Struct, frozen=True):
    ip: str = ""


class _PodStatus(msgspec.Struct, frozen=True):
    pod_ip: str | None = msgspec.field(name="podIP", default=None)
    pod_ips: tuple[_PodIP, ...] | None = msgspec.field(name="podIPs", default=None)


class _PodSpec(msgspec.Struct, frozen=True):
    node_name: str | None = msgspec.field(name="nodeName", default=None)


class _Meta(msgspec.Struct, frozen=True):
    name: str
    namespace: str | None = None


class _PodObject(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: _PodSpec | None = None
    status: _PodStatus | None = None


class _Named(msgspec.Struct, frozen=True):
    metadata: _Meta


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
    node = (pod.spec.node_name if pod.spec else None) or ""
    return Pod(pod.metadata.namespace or "default", pod.metadata.name, tuple(ips), node)


async def from_api_server(access: Access, wanted: Viewpoint) -> Snapshot:
    """The cluster of an API server, and its Pods of the wanted name."""
    from kubeproxy.cluster.watch.apiserver import ApiServer, WatchSettings  # noqa: PLC0415  # costly to import

    asking = ApiServer(access, WatchSettings(node_name=""))
    nodes = await asking.get_json("/api/v1/nodes", (), _NodeList)
    pods = await _pods(asking, wanted.pod)
    name = choose_node(wanted, sorted(node.metadata.name for node in nodes.items), pods)
    cluster = Cluster(name, allow_external_ips=wanted.allow_external_ips)
    changed = asyncio.Event()

    def deliver(event: Event) -> None:
        cluster.apply(event)
        changed.set()

    try:
        async with asyncio.TaskGroup() as tasks:
            source = ApiServer(access, WatchSettings(node_name=name))
            following = tasks.create_task(source.run(deliver))
            await _wait_known(cluster, changed, access.server)
            following.cancel()
    except* ApiServerError as group:
        raise group.exceptions[0] from None
    remarks = [*_invalid(cluster)]
    missing = [kind.value for kind in Kind if not cluster.synced(kind)]
    if missing:
        remarks.append(f"{' and '.join(missing)} objects could not be read: they count as absent")
    return Snapshot(cluster, pods, tuple(remarks))


async def _wait_known(cluster: Cluster, changed: asyncio.Event, server: str) -> None:
    """Wait for the objects that every answer needs, and shortly for the rest."""
    needed = (Kind.SERVICE, Kind.ENDPOINT_SLICE)
    for kinds, seconds in ((needed, API_SERVER_WAIT), (tuple(Kind), OPTIONAL_WAIT)):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not cluster.synced(*kinds):
                    changed.clear()
                    await changed.wait()
        if not cluster.synced(*needed):
            raise ApiServerError(
                f"{server} did not list all Services and EndpointSlices within {seconds:g} s"
            )


async def _pods(asking: "ApiServer", text: str) -> tuple[Pod, ...]:
    if not text:
        return ()
    query = (("fieldSelector", f"metadata.name={text.rpartition('/')[2]}"),)
    pods = await asking.get_json("/api/v1/pods", query, _PodList)
    return tuple(map(_to_pod, pods.items))
