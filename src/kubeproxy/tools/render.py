"""`kube-proxy render`: what would be programmed, as text, without privileges."""

import sys
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from kubeproxy.base.errors import OperatorError
from kubeproxy.base.inet import Family
from kubeproxy.config.defaults import with_platform_defaults
from kubeproxy.config.flags import FLAGS
from kubeproxy.config.flagset import Flag, parse, refuse_positionals, usage
from kubeproxy.config.kinds import STRING
from kubeproxy.config.load import Loaded, load
from kubeproxy.config.validate import validate
from kubeproxy.dataplane.modes import MODES, load_mode
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
    loaded = _in_mode(load(parsed, MODES), mode)
    validate(loaded.config, loaded.gates, MODES)
    render = load_mode(loaded.config.mode).render
    families = _families(parsed.value("family", str))
    snapshot = read_snapshot(parsed, loaded)
    for remark in snapshot.remarks:
        print(f"note: {remark}", file=sys.stderr)  # noqa: T201  # not part of the rules
    view = view_of(loaded, snapshot)
    for family in families:
        print(render(loaded.config, view.tables[family], view.nodes[family]))  # noqa: T201  # rules
    return 0


def _in_mode(loaded: Loaded, mode: str) -> Loaded:
    """The configuration as it would be in another mode."""
    if not mode:
        return loaded
    config, _ = with_platform_defaults(replace(loaded.config, mode=mode), MODES)
    return replace(loaded, config=config)


def _families(wanted: str) -> tuple[Family, ...]:
    if not wanted:
        return tuple(Family)
    found = tuple(family for family in Family if family.value.lower() == wanted.lower())
    if not found:
        raise OperatorError(f"--family {wanted}: must be IPv4 or IPv6")
    return found
