"""The modes there are, in order. Only this module and the folder of a mode know its name."""

from collections.abc import Iterator, Mapping
from importlib import import_module

from kubeproxy.base.errors import OperatorError
from kubeproxy.dataplane.mode import Mode

MODULES = {
    "nftables": "kubeproxy.dataplane.nftables.mode",
    "iptables": "kubeproxy.dataplane.iptables.mode",
    "ipvs": "kubeproxy.dataplane.ipvs.mode",
    "userspace": "kubeproxy.dataplane.userspace.mode",
}
"""For each name the module whose `MODE` describes the mode. The first mode is the default."""


class _Modes(Mapping[str, Mode]):
    """The modes by name. A mode is loaded when it is looked up, and its parts when used."""

    def __getitem__(self, name: str) -> Mode:
        mode: Mode = import_module(MODULES[name]).MODE
        return mode

    def __contains__(self, name: object) -> bool:
        return name in MODULES

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


MODES = _Modes()


def load_mode(name: str) -> Mode:
    """Load one mode; the daemon loads the one it runs in."""
    if name not in MODES:
        raise OperatorError(f"unknown proxy mode {name!r}")
    return MODES[name]


def all_modes() -> tuple[Mode, ...]:
    """Load all modes; the parts of each are loaded when they are used."""
    return tuple(MODES.values())
