"""The cluster at one moment, as the proxy of one node sees it: from manifests or an API server."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from kubeproxy.base.errors import ApiServerError, OperatorError
from kubeproxy.base.inet import Family, parse_address
from kubeproxy.cluster.client.access import Access
from kubeproxy.cluster.client.contenttypes import ONLY_JSON
from kubeproxy.cluster.client.kubeconfig import find_access
from kubeproxy.cluster.events import Event
from kubeproxy.cluster.manifests.documents import Document
from kubeproxy.cluster.manifests.objects import first_events
from kubeproxy.cluster.manifests.skipped import other_kinds, skipped
from kubeproxy.cluster.manifests.source import ManifestContents, load
from kubeproxy.cluster.model.cluster import Cluster
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.config.flagset import Parsed
from kubeproxy.config.gates import ALLOW_SERVICE_EXTERNAL_IPS
from kubeproxy.config.load import Loaded
from kubeproxy.dataplane.modes import load_mode
from kubeproxy.engine.node import known_addresses, node_ips, node_view, with_bind_address
from kubeproxy.explain.answers import View
from kubeproxy.explain.question import Pod, find_pods
from kubeproxy.table.build import Builder
from kubeproxy.table.node import NodeView
from kubeproxy.tools.command import note

if TYPE_CHECKING:
    from kubeproxy.cluster.watch.apiserver import ApiServer

API_SERVER_WAIT = 60.0
OPTIONAL_WAIT = 3.0
"""How long to wait for what can be missing: older clusters have no ServiceCIDRs."""
_SHOWN_NODES = 10


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


class NoCluster(OperatorError):
    """Neither the command line nor the environment names a cluster."""


def read_view(parsed: Parsed, loaded: Loaded, pod: str = "") -> View:
    """What the node sees of the cluster that the command line names; remarks are printed.

    `pod` is one whose address is wanted.
    """
    snapshot = read_snapshot(parsed, loaded, pod)
    for remark in snapshot.remarks:
        note(remark)
    return _compiled(loaded, snapshot)


def read_snapshot(parsed: Parsed, loaded: Loaded, pod: str = "") -> Snapshot:
    """The cluster that the command line names; `pod` is one whose address is wanted."""
    wanted = Viewpoint(
        node=(parsed.value("node", str) or loaded.config.hostname_override).strip().lower(),
        hostname=socket.gethostname().strip().lower(),
        pod=pod,
        allow_external_ips=loaded.gates.enabled(ALLOW_SERVICE_EXTERNAL_IPS),
    )
    manifests = parsed.value("manifests", tuple)
    if manifests:
        return from_manifests(manifests, wanted)
    # The proxy's config file names the proxy's kubeconfig: the user may have another.
    kubeconfig = parsed.value("kubeconfig", str) or loaded.config.client_connection.kubeconfig
    master = parsed.value("master", str)
    if not kubeconfig and not master:
        kubeconfig = _users_kubeconfig(os.environ)
    access = find_access(kubeconfig, master, os.environ)
    return asyncio.run(from_api_server(access, wanted))


def _users_kubeconfig(environ: Mapping[str, str]) -> str:
    """Where kubectl would look: a tool is run by people, unlike the daemon. "" inside a pod."""
    given = environ.get("KUBECONFIG", "").partition(":")[0]
    usual = Path(environ.get("HOME", "/")) / ".kube/config"
    if given or usual.exists():
        return given or str(usual)
    if "KUBERNETES_SERVICE_HOST" in environ:
        return ""
    raise NoCluster("no cluster is named: give --manifests DIRECTORY or --kubeconfig FILE")


def _compiled(loaded: Loaded, snapshot: Snapshot) -> View:
    cluster, config = snapshot.cluster, loaded.config
    families = compiled_families(loaded, snapshot)
    mode = load_mode(config.mode)
    return View(
        cluster,
        mode.name,
        mode.quirks,
        node_ips(with_bind_address(cluster.node, config.bind_address)),
        {family: builder.table for family, (_, builder) in families.items()},
        {family: node for family, (node, _) in families.items()},
        {family: builder.conflicts() for family, (_, builder) in families.items()},
        snapshot.pods,
    )


def compiled_families(
    loaded: Loaded, snapshot: Snapshot
) -> dict[Family, tuple[NodeView, Builder]]:
    """The node and the table of each family; the node itself is not asked for its addresses."""
    cluster, config = snapshot.cluster, loaded.config
    own = with_bind_address(cluster.node, config.bind_address)
    addresses = known_addresses(own)
    found: dict[Family, tuple[NodeView, Builder]] = {}
    for family in Family:
        node = replace(
            node_view(config, loaded.gates, family, own),
            name=cluster.node_name,
            addresses=addresses[family],
            service_cidrs=cluster.service_cidrs(family),
        )
        builder = Builder(family)
        builder.update(cluster, (), node)
        found[family] = (node, builder)
    return found


# --- manifests and API servers ----------------------------------------------------------------


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
    more = len(nodes) - _SHOWN_NODES
    return ", ".join(nodes[:_SHOWN_NODES]) + (f" and {more} more" if more > 0 else "")


def from_manifests(paths: Sequence[str], wanted: Viewpoint) -> Snapshot:
    """The cluster that manifests describe."""
    loaded = load(paths)
    nodes = sorted(key.name for kind, key in loaded.objects if kind is Kind.NODE)
    pods = tuple(_pods_in(loaded.documents))
    name = choose_node(wanted, nodes, pods)
    cluster = Cluster(name, allow_external_ips=wanted.allow_external_ips)
    for event in first_events(loaded.objects):
        cluster.apply(event)
    return Snapshot(cluster, pods, (*_remarks(loaded, name, nodes), *_invalid(cluster)))


def _remarks(loaded: ManifestContents, name: str, nodes: Sequence[str]) -> Iterator[str]:
    """What an answer from these manifests cannot be relied on for."""
    for problem in loaded.problems:
        yield f"skipped: {problem}"
    left_out = skipped(loaded.documents)
    yield from (str(each) for each in left_out if each.why)
    if others := other_kinds(left_out):
        yield f"objects of other kinds are skipped: {', '.join(others)}"
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


def _pods_in(documents: Iterable[Document]) -> Iterator[Pod]:
    for document in documents:
        with contextlib.suppress(msgspec.ValidationError):
            if document.kind == "Pod":
                yield msgspec.convert(document.body, _PodObject).pod()


class _Meta(msgspec.Struct, frozen=True):
    name: str
    namespace: str | None = None


class _PodSpec(msgspec.Struct, frozen=True):
    node_name: str | None = msgspec.field(name="nodeName", default=None)


class _PodStatus(msgspec.Struct, frozen=True):
    pod_ip: str | None = msgspec.field(name="podIP", default=None)
    pod_ips: tuple[dict[str, str], ...] | None = msgspec.field(name="podIPs", default=None)


class _PodObject(msgspec.Struct, frozen=True):
    """A Pod. Of a Node, only the name is read."""

    metadata: _Meta
    spec: _PodSpec | None = None
    status: _PodStatus | None = None

    def pod(self) -> Pod:
        status = self.status or _PodStatus()
        texts = [status.pod_ip or "", *(each.get("ip", "") for each in status.pod_ips or ())]
        ips = dict.fromkeys(ip for ip in map(parse_address, texts) if ip is not None)
        node = (self.spec.node_name if self.spec else None) or ""
        return Pod(self.metadata.namespace or "default", self.metadata.name, tuple(ips), node)


class _ObjectList(msgspec.Struct, frozen=True):
    items: tuple[_PodObject, ...] = ()


async def from_api_server(access: Access, wanted: Viewpoint) -> Snapshot:
    """The cluster of an API server, and its Pods of the wanted name."""
    from kubeproxy.cluster.watch.apiserver import ApiServer, WatchSettings  # noqa: PLC0415  # costly to import

    asking = ApiServer(access, WatchSettings(node_name=""))
    nodes = await asking.get_json("/api/v1/nodes", (), _ObjectList)
    pods = await _pods(asking, wanted.pod)
    name = choose_node(wanted, sorted(node.metadata.name for node in nodes.items), pods)
    cluster = Cluster(name, allow_external_ips=wanted.allow_external_ips)
    changed = asyncio.Event()

    def deliver(event: Event) -> None:
        cluster.apply(event)
        changed.set()

    try:
        async with asyncio.TaskGroup() as tasks:
            source = ApiServer(access, WatchSettings(node_name=name, accepts=ONLY_JSON))
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
    pods = await asking.get_json("/api/v1/pods", query, _ObjectList)
    return tuple(each.pod() for each in pods.items)
