"""`kube-proxy render`: what would be programmed, as text, without privileges."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from kubeproxy.base.errors import OperatorError
from kubeproxy.base.inet import Family
from kubeproxy.config.defaults import with_platform_defaults
from kubeproxy.config.flags import FLAGS
from kubeproxy.config.flagset import Flag, parse, refuse_positionals, usage
from kubeproxy.config.kinds import STRING
from kubeproxy.config.load import Loaded, load
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.config.validate import validate
from kubeproxy.dataplane.iptables import describe as iptables
from kubeproxy.dataplane.iptables import setup as iptables_setup
from kubeproxy.dataplane.ipvs import render as ipvs
from kubeproxy.dataplane.nftables.describe import describe
from kubeproxy.dataplane.nftables.program import masquerade_mark, program
from kubeproxy.engine.ipvs_settings import ipvs_settings
from kubeproxy.explain.answers import View
from kubeproxy.table.node import Mode
from kubeproxy.tools.view import read_snapshot, shared_flags, view_of

_OWN: Final = (
    Flag("mode", STRING, "", "The proxy mode; default: that of the configuration.", "Rules"),
    Flag("family", STRING, "", "IPv4 or IPv6; default: both.", "Rules"),
    Flag("node", STRING, "", "The node whose rules are wanted; default: this host.", "Rules"),
)


def usage_text() -> str:
    """How to call it."""
    return usage("kube-proxy render", [*_OWN, *shared_flags()])


def main(arguments: Sequence[str]) -> int:
    """Print the rules."""
    parsed = parse([*_OWN, *FLAGS], arguments)
    if parsed.value("help", bool):
        print(usage_text(), end="")  # noqa: T201  # what was asked for
        return 0
    refuse_positionals("kube-proxy render", parsed)
    mode = parsed.value("mode", str)
    if mode:  # before the defaults, which depend on it; a config file has none of the flags
        parsed = parse([*_OWN, *FLAGS], [*arguments, f"--proxy-mode={mode}"])
    loaded = _in_mode(load(parsed), mode)
    validate(loaded.config, loaded.gates)
    render = _RENDER[Mode(loaded.config.mode)]
    families = _families(parsed.value("family", str))
    snapshot = read_snapshot(parsed, loaded)
    for remark in snapshot.remarks:
        print(f"note: {remark}", file=sys.stderr)  # noqa: T201  # not part of the rules
    view = view_of(loaded, snapshot)
    for family in families:
        print(render(loaded.config, view, family))  # noqa: T201  # the rules
    return 0


def _nftables(config: KubeProxyConfiguration, view: View, family: Family) -> str:
    node = view.nodes[family]
    fixed = program(
        node,
        masquerade_mark(config.masquerade_bit),
        endpoint_counters=config.nftables.endpoint_counters,
        affinity_size=config.nftables.affinity_size,
    )
    return describe(fixed, view.tables[family], node)


def _iptables(config: KubeProxyConfiguration, view: View, family: Family) -> str:
    """As on a kernel that has nfnetlink_acct, which most have."""
    options = iptables_setup.Options(
        config.masquerade_bit,
        drops_invalid=not config.conntrack.tcp_be_liberal,
        counters=frozenset(iptables_setup.COUNTERS),
    )
    return iptables.describe(view.tables[family], view.nodes[family], options).rstrip("\n")


def _ipvs(config: KubeProxyConfiguration, view: View, family: Family) -> str:
    settings = ipvs_settings(config)
    return ipvs.describe(view.tables[family], view.nodes[family], settings).rstrip("\n")


_RENDER: Final[Mapping[Mode, Callable[[KubeProxyConfiguration, View, Family], str]]] = {
    Mode.NFTABLES: _nftables,
    Mode.IPTABLES: _iptables,
    Mode.IPVS: _ipvs,
}


def _in_mode(loaded: Loaded, mode: str) -> Loaded:
    """The configuration as it would be in another mode."""
    if not mode:
        return loaded
    config, _ = with_platform_defaults(replace(loaded.config, mode=mode))
    return replace(loaded, config=config)


def _families(wanted: str) -> tuple[Family, ...]:
    if not wanted:
        return tuple(Family)
    found = tuple(family for family in Family if family.value.lower() == wanted.lower())
    if not found:
        raise OperatorError(f"--family {wanted}: must be IPv4 or IPv6")
    return found
