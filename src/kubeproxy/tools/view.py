"""A cluster as the proxy of one node sees it, for tools."""

import asyncio
import os
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from kubeproxy.base.errors import OperatorError
from kubeproxy.base.inet import Family, family_of
from kubeproxy.cluster.client.kubeconfig import find_access
from kubeproxy.cluster.model.node import NodeState
from kubeproxy.config.flags import FLAGS
from kubeproxy.config.flagset import Flag, Parsed
from kubeproxy.config.gates import ALLOW_SERVICE_EXTERNAL_IPS
from kubeproxy.config.load import Loaded
from kubeproxy.dataplane.modes import load_mode
from kubeproxy.engine.node import LOOPBACK_IP, node_ips, node_view, with_bind_address
from kubeproxy.explain.answers import View
from kubeproxy.table.build import Builder
from kubeproxy.table.claims import Conflict
from kubeproxy.table.compile import Vantage
from kubeproxy.table.entries import Balance, Table
from kubeproxy.table.node import Node
from kubeproxy.tools.snapshot import Snapshot, Viewpoint, from_api_server, from_manifests

# The daemon's flags that change a verdict, or say where the cluster's state comes from.
_SHARED: Final = frozenset(
    {
        "bind-address",
        "cluster-cidr",
        "config",
        "detect-local-mode",
        "feature-gates",
        "help",
        "iptables-localhost-nodeports",
        "kubeconfig",
        "manifests",
        "masquerade-all",
        "master",
        "nodeport-addresses",
        "pod-bridge-interface",
        "pod-interface-name-prefix",
        "proxy-mode",
    }
)


class NoCluster(OperatorError):
    """Neither the command line nor the environment names a cluster."""


def shared_flags() -> Iterable[Flag]:
    """These flags, for a usage text."""
    for flag in FLAGS:
        if flag.name in _SHARED:
            yield msgspec.structs.replace(flag, group="Cluster and proxy")


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


def view_of(loaded: Loaded, snapshot: Snapshot) -> View:
    """Compile the snapshot for both families."""
    cluster, config = snapshot.cluster, loaded.config
    own = with_bind_address(cluster.node, config.bind_address)
    ips, balance = node_ips(own), Balance(config.nftables.balance)
    tables: dict[Family, Table] = {}
    nodes: dict[Family, Node] = {}
    conflicts: dict[Family, list[Conflict]] = {}
    for family in Family:
        builder = Builder(family)
        builder.update(cluster, (), Vantage(cluster.place, ips.get(family), balance))
        tables[family] = builder.table
        nodes[family] = msgspec.structs.replace(
            node_view(config, loaded.gates, family, own),
            addresses=_own_addresses(own, family),
            service_cidrs=cluster.service_cidrs(family),
        )
        conflicts[family] = builder.conflicts()
    mode = load_mode(config.mode)
    return View(cluster, mode.name, mode.quirks, ips, tables, nodes, conflicts, snapshot.pods)


def _own_addresses(node: NodeState, family: Family) -> tuple[str, ...]:
    """The known addresses of the node's interfaces, in the daemon's order.

    The node itself is not asked: these are the addresses of its Node and of the configuration,
    and loopback.
    """
    known = {*node.ips, LOOPBACK_IP[family]}
    return tuple(sorted(address for address in known if family_of(address) is family))
