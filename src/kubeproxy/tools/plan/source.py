"""What a plan is made of: the cluster and its proxy as they are, the change, rules of others."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from kubeproxy.base.errors import KernelError, NoDaemonError, OperatorError, reason_of
from kubeproxy.base.inet import Family
from kubeproxy.cluster.manifests.documents import Document
from kubeproxy.cluster.manifests.files import parse_file, read, scan
from kubeproxy.cluster.manifests.objects import ManifestObject, decode_documents
from kubeproxy.cluster.model.cluster import Cluster
from kubeproxy.config.defaults import with_platform_defaults
from kubeproxy.config.flags import parse_flags
from kubeproxy.config.flagset import Parsed
from kubeproxy.config.gates import resolve
from kubeproxy.config.load import Loaded, complete, load
from kubeproxy.config.types import KIND
from kubeproxy.config.types import KubeProxyConfiguration as Config
from kubeproxy.config.validate import validate
from kubeproxy.dataplane.modes import MODES, load_mode
from kubeproxy.dataplane.xtables_kind import use_kind_of_node
from kubeproxy.linux.tools import ToolFailed, find, run
from kubeproxy.linux.xtables import Xtables
from kubeproxy.plan.side import Setup
from kubeproxy.serve.status.clusterwire import read_cluster
from kubeproxy.tools import client
from kubeproxy.tools.clusterflags import SHARED_FLAGS
from kubeproxy.tools.command import note
from kubeproxy.tools.snapshot import NoCluster, read_snapshot

STDIN: Final = "-"
_TABLES: Final = ("filter", "nat", "mangle")
# Flags that name a node, a cluster or settings, which the running proxy has already.
_ELSEWHERE: Final = frozenset({"node", *(flag.name for flag in SHARED_FLAGS)} - {"help"})


class Change(msgspec.Struct, frozen=True):
    """What the files of a change have. `config` is the text of a new config file, if any."""

    objects: tuple[ManifestObject, ...] = ()
    config: str | None = None
    mode: str = ""


class Present(msgspec.Struct, frozen=True):
    """The cluster and the two set-ups. `live` says that this machine runs the proxy."""

    cluster: Cluster
    before: Setup
    after: Setup
    live: bool


# --- the change -------------------------------------------------------------------------------


def read_change(paths: Sequence[str], mode: str) -> Change:
    """The change in files, directories and standard input (`-`); what is of no use is an error."""
    documents: list[Document] = []
    for path in paths:
        documents += _read_documents(path)
    configs = [each for each in documents if each.kind == KIND]
    if len(configs) > 1:
        raise OperatorError(f"there are {len(configs)} config files in the change: give one")
    objects, problems = decode_documents(documents)
    if problems:
        raise problems[0]
    if paths and not objects and not configs:
        raise OperatorError(
            f"there is no Service, EndpointSlice, Node, ServiceCIDR or {KIND} in the change"
        )
    left = {each.kind for each in documents} - {each.kind.value for each in objects} - {KIND}
    if left:
        note(f"not looked at: {', '.join(sorted(left))}")
    text = json.dumps(configs[0].body) if configs else None
    return Change(tuple(objects), text, mode)


def _read_documents(path: str) -> list[Document]:
    if path == STDIN:
        return parse_file("standard input", sys.stdin.buffer.read())
    found = scan([path])
    for unreachable, why in found.unreachable.items():
        raise OperatorError(f"{unreachable} cannot be read: {why}")
    return [each for file in found.files for each in parse_file(file, read(file) or b"")]


# --- the cluster, and the proxy's settings ----------------------------------------------------


def read_present(parsed: Parsed, change: Change) -> Present:
    """From the running proxy, unless the command line names a cluster, a node or settings."""
    elsewhere = sorted(parsed.given & _ELSEWHERE)
    if not parsed.given.isdisjoint({"socket", "address"}):
        if elsewhere:
            raise OperatorError(
                f"--{elsewhere[0]} is not possible here: the running proxy, which is asked, has"
                " its node, its cluster and its settings"
            )
        return _by_daemon(parsed, change)
    if elsewhere:
        return _by_cluster(parsed, change)
    try:
        return _by_daemon(parsed, change)
    except NoDaemonError as no_daemon:
        try:
            return _by_cluster(parsed, change)
        except NoCluster as error:
            raise type(no_daemon)(f"{error}; {no_daemon}") from error


def _by_daemon(parsed: Parsed, change: Change) -> Present:
    known = read_cluster(client.connect(parsed).read("/status/cluster"))
    gates, _ = resolve(known.config.feature_gates)
    before = Loaded(known.config, gates, ())
    note(f"the running kube-proxy was asked ({known.mode} mode, node {known.cluster.node_name})")
    after = before
    if change.config is not None:
        after = complete(parse_flags([]), change.config, MODES, change.mode)
    elif change.mode:
        after = replace(before, config=_in_mode(known.config, change.mode))
    return _present(known.cluster, before, after, known.addresses)


def _in_mode(config: Config, mode: str) -> Config:
    """The configuration in another mode: what the mode of before stood for is its own default."""
    ports = config.node_port_addresses
    if ports == load_mode(config.mode).node_port_addresses:
        ports = ()
    moved = replace(config, mode=load_mode(mode).name, node_port_addresses=ports)
    return with_platform_defaults(moved, MODES)[0]


def _by_cluster(parsed: Parsed, change: Change) -> Present:
    before = load(parsed, MODES)
    validate(before.config, before.gates, MODES)
    if change.config is not None:
        after = complete(parsed, change.config, MODES, change.mode)
    else:
        after = load(parsed, MODES, change.mode)
    snapshot = read_snapshot(parsed, before)
    for remark in snapshot.remarks:
        note(remark)
    return _present(snapshot.cluster, before, after, None)


def _present(
    cluster: Cluster,
    before: Loaded,
    after: Loaded,
    addresses: Mapping[Family, tuple[str, ...]] | None,
) -> Present:
    validate(after.config, after.gates, MODES)
    one, other = (
        Setup(each.config, each.gates, load_mode(each.config.mode), addresses)
        for each in (before, after)
    )
    return Present(cluster, one, other, live=addresses is not None)


# --- rules of others --------------------------------------------------------------------------


def read_listings(files: Sequence[str], present: Present) -> list[str]:
    """Listings of rules: the named files, else those of this machine if it runs the proxy."""
    if files:
        return [_listing(path) for path in files]
    before, after = present.before, present.after
    same = before.mode.name == after.mode.name
    if not present.live or (same and before.config.masquerade_bit == after.config.masquerade_bit):
        return []
    try:
        return _of_this_machine()
    except KernelError as error:
        note(
            f"rules of other programs were not looked at ({error}): run this as root on the node,"
            " or give what iptables-save and nft list ruleset print with --rules"
        )
        return []


def _listing(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else "it is not UTF-8 text"
        raise OperatorError(f"--rules {path}: {reason}") from error


def _of_this_machine() -> list[str]:
    """What the iptables programs and nft list, where they are installed."""
    use_kind_of_node()
    found = []
    for family in Family:
        programs = Xtables(family)
        tables = (f"{programs.save(table)}\n" for table in _TABLES)
        found.append("".join(tables))
    nft = find("nft")
    if nft:
        try:
            found.append(run([nft, "list", "ruleset"]))
        except ToolFailed as error:
            note(f"rules that nft lists were not looked at ({error})")
    return found
