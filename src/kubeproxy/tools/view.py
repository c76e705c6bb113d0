"""A cluster as one node's proxy sees it, for the tools that look at it without being one."""

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
from kubeproxy.engine.node import LOOPBACK_IP, NodeIPs, Surroundings, node_ips, node_view
from kubeproxy.explain.answers import View
from kubeproxy.table.build import Builder
from kubeproxy.table.claims import Conflict
from kubeproxy.table.compile import Vantage
from kubeproxy.table.entries import Balance, Table
from kubeproxy.table.node import Mode, Node
from kubeproxy.tools.snapshot import Snapshot, Wanted, from_api_server, from_manifests

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
    """The command line names no cluster, and neither does anything else."""


def shared_flags() -> Iterable[Flag]:
    """These flags, for a usage text."""
    for flag in FLAGS:
        if flag.name in _SHARED:
            yield msgspec.structs.replace(flag, group="Cluster and proxy")


def read_snapshot(parsed: Parsed, loaded: Loaded, pod: str = "") -> Snapshot:
    """The cluster that the command line names; `pod` is one whose address is wanted."""
    wanted = Wanted(
        node=(parsed.value("node", str) or loaded.config.hostname_override).strip().lower(),
        hostname=socket.gethostname().strip().lower(),
        pod=pod,
        allow_external_ips=loaded.gates.enabled(ALLOW_SERVICE_EXTERNAL_IPS),
    )
    manifests = parsed.value("manifests", tuple)
    if manifests:
        return from_manifests(manifests, wanted)
    # The proxy's config file names the proxy's kubeconfig: who asks may have another.
    kubeconfig = parsed.value("kubeconfig", str) or loaded.config.client_connection.kubeconfig
    master = parsed.value("master", str)
    if not kubeconfig and not master:
        kubeconfig = _users_kubeconfig(os.environ)
    access = find_access(kubeconfig, master, os.environ)
    return asyncio.run(from_api_server(access, wanted))


def _users_kubeconfig(environ: Mapping[str, str]) -> str:
    """Where kubectl would look: this is a tool for people, unlike the daemon. "" inside a pod."""
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
    ips = node_ips(cluster.node, config.bind_address)
    balance = Balance(config.nftables.balance)
    tables: dict[Family, Table] = {}
    nodes: dict[Family, Node] = {}
    conflicts: dict[Family, list[Conflict]] = {}
    for family in Family:
        builder = Builder(family)
        builder.update(cluster, (), Vantage(cluster.place, ips.known_ip(family), balance))
        own = _own_addresses(cluster.node, ips, family)
        around = Surroundings(cluster.node, ips, own, cluster.service_cidrs(family))
        tables[family] = builder.table
        nodes[family] = node_view(config, loaded.gates, family, around)
        conflicts[family] = builder.conflicts()
    return View(cluster, Mode(config.mode), ips, tables, nodes, conflicts, snapshot.pods)


def _own_addresses(node: NodeState | None, ips: NodeIPs, family: Family) -> tuple[str, ...]:
    """The addresses of the node's interfaces as far as they are known, in the daemon's order.

    It is not asked: those of its Node, the one that the configuration gives it, and loopback.
    """
    known = {*(node.ips if node else ()), ips.ips[family], LOOPBACK_IP[family]}
    return tuple(sorted(address for address in known if family_of(address) is family))
