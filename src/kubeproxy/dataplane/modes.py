"""The modes there are, in order. Only this module and the folder of a mode know its name."""

from importlib import import_module

from kubeproxy.base.errors import OperatorError
from kubeproxy.dataplane.mode import Mode

MODES = {
    "nftables": "kubeproxy.dataplane.nftables.mode",
    "iptables": "kubeproxy.dataplane.iptables.mode",
    "ipvs": "kubeproxy.dataplane.ipvs.mode",
}
"""For each name the module whose `MODE` describes the mode."""


def load_mode(name: str) -> Mode:
    """Load one mode; the daemon loads the one it runs in."""
    if name not in MODES:
        raise OperatorError(f"unknown proxy mode {name!r}")
    mode: Mode = import_module(MODES[name]).MODE
    return mode


def all_modes() -> tuple[Mode, ...]:
    """Load all modes; the parts of each are loaded when they are used."""
    return tuple(map(load_mode, MODES))
