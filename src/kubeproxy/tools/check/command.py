"""`kube-proxy check`: what this node has and lacks for each mode, before anything is installed."""

import os
import sys
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from kubeproxy.config.flags import FLAGS
from kubeproxy.config.flagset import Parsed, parse, refuse_positionals, usage
from kubeproxy.config.load import load
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.config.validate import validate
from kubeproxy.dataplane.modes import MODES, load_mode
from kubeproxy.tools.check.survey import Plan, survey
from kubeproxy.tools.check.view import screen
from kubeproxy.tools.terminal import OUTPUT, look_of, show, show_json, wants_json

_FLAGS: Final = (OUTPUT, *FLAGS)
_AFTERWARDS: Final = """
Without --config and --proxy-mode every mode is judged. Nothing on the node is changed.
Exit codes: 0 when the mode, or one of them, would work here, 1 when not.
"""

# The daemon's flags that change what is looked at. All others are taken, and change nothing.
_SHARED: Final = frozenset(
    {
        *("config", "feature-gates", "help", "proxy-mode"),
        *("bind-address", "bind-address-hard-fail"),
        *("healthz-bind-address", "metrics-bind-address", "nodeport-addresses"),
        *("iptables-localhost-nodeports", "ipvs-scheduler", "ipvs-strict-arp"),
        *("conntrack-max-per-core", "conntrack-min"),
        *("conntrack-tcp-timeout-close-wait", "conntrack-tcp-timeout-established"),
    }
)


def usage_text() -> str:
    """How to call it."""
    shared = (flag for flag in FLAGS if flag.name in _SHARED)
    flags = [replace(flag, group="Proxy") for flag in shared]
    return usage("kube-proxy check", [OUTPUT, *flags]) + _AFTERWARDS


def main(arguments: Sequence[str]) -> int:
    """Look, and print what was found; 0 when a mode that was asked for would work."""
    parsed = parse(_FLAGS, arguments)
    if parsed.value("help", bool):
        print(usage_text(), end="")  # noqa: T201  # what was asked for
        return 0
    refuse_positionals("kube-proxy check", parsed)
    as_json = wants_json(parsed)
    report = survey(_plans(parsed, arguments))
    if as_json:
        show_json(report)
    else:
        look = look_of(sys.stdout, os.environ)
        show(screen(report, look.width), replace(look, width=None))  # a remedy is never cut off
    return 0 if report.works else 1


def _plans(parsed: Parsed, arguments: Sequence[str]) -> list[Plan]:
    """The mode that the command line or its config file names; all modes when neither does."""
    if parsed.value("config", str) or parsed.value("proxy-mode", str):
        configs = [_loaded(parsed)]
    else:
        configs = [_loaded(parse(_FLAGS, [*arguments, f"--proxy-mode={name}"])) for name in MODES]
    return [Plan(load_mode(config.mode), config) for config in configs]


def _loaded(parsed: Parsed) -> KubeProxyConfiguration:
    loaded = load(parsed, MODES)
    validate(loaded.config, loaded.gates, MODES)
    return loaded.config
