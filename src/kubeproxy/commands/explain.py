"""`kube-proxy explain`: where would this packet go, and why."""

import asyncio
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from kubeproxy.commands.question import Origin, Question, questions
from kubeproxy.commands.snapshot import Snapshot, from_api_server, from_manifests
from kubeproxy.config.errors import UsageError
from kubeproxy.config.flags import FLAGS
from kubeproxy.config.flagset import Flag, Parsed, parse, refuse_positionals, usage
from kubeproxy.config.kinds import STRING, STRINGS
from kubeproxy.config.load import Loaded, load
from kubeproxy.config.validate import validate
from kubeproxy.errors import OperatorError
from kubeproxy.inet import Family, parse_address
from kubeproxy.nodefacts import Surroundings, node_ips, node_view
from kubeproxy.objects.meta import ObjectKey
from kubeproxy.source.kubeconfig import find_access
from kubeproxy.table.build import Builder
from kubeproxy.table.compile import Vantage, left_out
from kubeproxy.table.decide import Verdict, decide
from kubeproxy.table.entries import Table
from kubeproxy.table.explain import Context, Explanation, explain, render
from kubeproxy.table.node import Mode, Node

_OWN: Final = (
    Flag(
        "from",
        STRING,
        "outside",
        "Who sends the packet: an address, 'outside', 'host', or a pod ([NAMESPACE/]NAME).",
    ),
    Flag(
        "to",
        STRINGS,
        (),
        "Where to: ADDRESS:PORT[/PROTOCOL], ADDRESS, or [NAMESPACE/]SERVICE[:PORT][/PROTOCOL]."
        " May be repeated.",
    ),
    Flag("node", STRING, "", "The node that handles the packet; default: this host."),
    Flag(
        "interface",
        STRING,
        "",
        "The interface on which the packet enters the node; only detectLocalMode BridgeInterface"
        " and InterfaceNamePrefix look at it.",
    ),
    Flag("output", STRING, "text", "'text' for people or 'json' for programs.", shorthand="o"),
)
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


def usage_text() -> str:
    """How to call it."""
    shared = [
        msgspec.structs.replace(flag, group="Cluster and proxy")
        for flag in FLAGS
        if flag.name in _SHARED
    ]
    own = [msgspec.structs.replace(flag, group="Question") for flag in _OWN]
    return usage("kube-proxy explain --to DESTINATION", [*own, *shared])


def main(arguments: Sequence[str]) -> int:
    """Answer the question on the command line."""
    parsed = parse([*_OWN, *FLAGS], arguments)
    if parsed.value("help", bool):
        print(usage_text(), end="")  # noqa: T201  # what was asked for
        return 0
    refuse_positionals("kube-proxy explain", parsed)
    output = parsed.value("output", str)
    if output not in {"text", "json"}:
        raise UsageError(f"--output {output}: must be text or json", show_usage=False)
    if not parsed.value("to", tuple):
        raise UsageError("--to is missing: say where the packet goes", show_usage=False)
    loaded = load(parsed)
    validate(loaded.config, loaded.gates)
    snapshot = _snapshot(parsed, loaded)
    for remark in snapshot.remarks:
        print(f"note: {remark}", file=sys.stderr)  # noqa: T201  # not part of the answer
    answers = answer(parsed, loaded, snapshot)
    if output == "json":
        text = msgspec.json.format(msgspec.json.encode(answers), indent=2).decode()
    else:
        text = "\n\n".join(map(render, answers))
    print(text)  # noqa: T201  # the answer
    return 0


def _snapshot(parsed: Parsed, loaded: Loaded) -> Snapshot:
    wanted = (parsed.value("node", str) or loaded.config.hostname_override).strip().lower()
    hostname = socket.gethostname().strip().lower()
    manifests = parsed.value("manifests", tuple)
    if manifests:
        return from_manifests(manifests, wanted, hostname)
    kubeconfig = loaded.config.client_connection.kubeconfig
    master = parsed.value("master", str)
    if not kubeconfig and not master:
        kubeconfig = _users_kubeconfig(os.environ)
    source = parsed.value("from", str)
    is_pod = source not in {"outside", "host"} and parse_address(source) is None
    pod = source.rpartition("/")[2] if is_pod else ""
    access = find_access(kubeconfig, master, os.environ)
    return asyncio.run(from_api_server(access, wanted, hostname, pod))


def _users_kubeconfig(environ: Mapping[str, str]) -> str:
    """Where kubectl would look: this is a tool for people, unlike the daemon."""
    given = environ.get("KUBECONFIG", "").partition(":")[0]
    usual = Path(environ.get("HOME", "/")) / ".kube/config"
    if not given and not usual.exists():
        raise OperatorError("no cluster is named: give --manifests DIRECTORY or --kubeconfig FILE")
    return given or str(usual)


class View(msgspec.Struct, frozen=True):
    """A cluster as one node's proxy sees it."""

    snapshot: Snapshot
    mode: Mode
    tables: dict[Family, Table]
    nodes: dict[Family, Node]


def answer(parsed: Parsed, loaded: Loaded, snapshot: Snapshot) -> list[Explanation]:
    """The explanation of each packet that was asked for."""
    cluster = snapshot.cluster
    ips = node_ips(cluster.node, loaded.config.bind_address)
    tables, nodes = {}, {}
    for family in Family:
        builder = Builder(family)
        builder.update(cluster, (), Vantage(cluster.place, ips.known_ip(family)))
        tables[family] = builder.table
        own = cluster.node.ips if cluster.node else ()
        around = Surroundings(cluster.node, ips, own, cluster.service_cidrs(family))
        nodes[family] = node_view(loaded.config, loaded.gates, family, around)
    view = View(snapshot, Mode(loaded.config.mode), tables, nodes)
    origin = Origin(ips, snapshot.pods, parsed.value("interface", str))
    source = parsed.value("from", str)
    return [
        _explained(question, view)
        for destination in parsed.value("to", tuple)
        for question in questions(source, destination, tables, origin)
    ]


def _explained(question: Question, view: View) -> Explanation:
    packet = question.packet
    family = Family.IPV6 if ":" in packet.destination else Family.IPV4
    verdict = decide(packet, view.tables[family], view.nodes[family], view.mode)
    context = Context(
        node_name=view.snapshot.cluster.node_name,
        node=view.nodes[family],
        mode=view.mode,
        not_chosen=_not_chosen(verdict, family, view),
        notes=question.notes,
    )
    return explain(verdict, packet, context)


def _not_chosen(verdict: Verdict, family: Family, view: View) -> tuple[tuple[str, str], ...]:
    """The endpoints of the service that were left out, and why."""
    name = verdict.service
    if name is None:
        return ()
    cluster = view.snapshot.cluster
    service = ObjectKey(name.namespace, name.service)
    return tuple(
        (str(backend), why.value)
        for port in cluster.service_ports(family, service)
        if (port.name, port.protocol) == (name.port, name.protocol)
        for backend, why in left_out(
            port,
            cluster.slices(family, service),
            cluster.place,
            local_policy=verdict.local_policy,
        )
    )
