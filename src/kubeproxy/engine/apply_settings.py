"""Makes the kernel settings that are wanted; the edge."""

import os
from collections.abc import Iterable, Mapping

from kubeproxy.base import klog
from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.dataplane.mode import Mode
from kubeproxy.dataplane.sysctls import Sysctl
from kubeproxy.engine.settings import wanted_sysctls
from kubeproxy.linux.machine import ensure_oom_score_adj, online_cores
from kubeproxy.linux.sysctl import is_fixed, read_sysctl, write_sysctl
from kubeproxy.table.node import NodeView


def prepare_machine(
    config: KubeProxyConfiguration,
    mode: Mode,
    nodes: Mapping[Family, NodeView],
    *,
    init_only: bool,
) -> None:
    """Set what is set once, before the first sync.

    With `init_only` the settings of the mode too: a later run may lack the privileges.
    """
    apply_settings(wanted_sysctls(config.conntrack, online_cores()))
    if init_only:
        apply_settings(mode.sysctls(config, nodes, os.uname().release).wanted)
        return
    try:
        ensure_oom_score_adj(config.oom_score_adj)
    except KernelError as error:
        klog.info("Failed to apply OOMScore", v=2, err=error)


def apply_settings(wanted: Iterable[Sysctl]) -> None:
    """Set what differs; a `KernelError` says what could not be set, and what to do.

    As upstream, a setting that cannot be made is the end: a node that loses connections for lack
    of room is worse than a proxy that says so at its start. But what belongs to the machine and
    cannot be set from any network namespace like ours is left to the machine.
    """
    for setting in wanted:
        current = _current(setting)
        if setting.is_met(current):
            continue
        entry = setting.name.replace(".", "/")
        if is_fixed(setting.name):
            klog.warning(
                "Sysctl can only be set in the machine's own network namespace, leaving it",
                entry=entry,
                value=current,
                wanted=setting.value,
            )
            continue
        try:
            write_sysctl(setting.name, setting.value)
        except KernelError as error:
            raise KernelError(f"{error}; {_advice(setting, current)}") from error
        if setting.lowers(current):
            klog.warning(
                "Set sysctl, to less than it was",
                entry=entry,
                value=setting.value,
                before=current,
                askedBy=setting.asked_by,
                keepWith=setting.leave,
            )
        else:
            klog.info("Set sysctl", entry=entry, value=setting.value)


def _current(setting: Sysctl) -> int | None:
    try:
        return read_sysctl(setting.name)
    except KernelError as error:
        klog.info("Sysctl cannot be read, setting it", v=2, entry=setting.name, err=error)
        return None


def _advice(setting: Sysctl, current: int | None) -> str:
    if current is None:
        return (
            "load the kernel module that has it (modprobe nf_conntrack), or leave the setting"
            f" alone with {setting.leave}"
        )
    return (
        f"it is {current} now: run `sysctl -w {setting.name}={setting.value}` on the host, or give"
        " the proxy, or an init container of it with --init-only, a writable /proc/sys"
        f" (privileged), or leave the setting alone with {setting.leave}"
    )
