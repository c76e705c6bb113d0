"""`kube-proxy check`: what this node has and lacks for each mode, before anything is installed."""

from functools import partial
from typing import Final

from msgspec.structs import replace

from kubeproxy.config.flags import FLAGS
from kubeproxy.config.flagset import Parsed
from kubeproxy.config.load import load
from kubeproxy.config.validate import validate
from kubeproxy.dataplane.modes import MODES, load_mode
from kubeproxy.tools.check.survey import Plan, survey
from kubeproxy.tools.check.view import screen
from kubeproxy.tools.command import OUTPUT, Command, in_mode, print_answer

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


def _run(parsed: Parsed) -> int:
    """Judge the mode that the command line or its config file names; all when neither does."""
    named = parsed.value("config", str) or parsed.value("proxy-mode", str)
    lines = [parsed] if named else [in_mode(parsed, name) for name in MODES]
    report = survey(list(map(_plan, lines)))
    print_answer(parsed, report, partial(screen, report), cut=False)  # a remedy is never cut off
    return 0 if report.works else 1


def _plan(parsed: Parsed) -> Plan:
    loaded = load(parsed)
    validate(loaded.config, loaded.gates, MODES)
    return Plan(load_mode(loaded.config.mode), loaded.config)


COMMAND: Final = Command(
    "check",
    (OUTPUT, *FLAGS),
    _run,
    _AFTERWARDS,
    listed=(OUTPUT, *(replace(flag, group="Proxy") for flag in FLAGS if flag.name in _SHARED)),
)
main, usage_text = COMMAND.main, COMMAND.usage_text
