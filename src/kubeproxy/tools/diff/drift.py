"""What the daemon means the kernel to be -> how far the kernel is from it, in the daemon's mode.

The kernel is that of this process: of this machine and this network namespace.
"""

from collections.abc import Callable, Mapping
from typing import Final

from kubeproxy.base.errors import KernelError, OperatorError
from kubeproxy.dataplane.difference import Difference
from kubeproxy.serve.status.tablewire import Desired
from kubeproxy.table.node import Mode


def drift(desired: Desired) -> list[Difference]:
    """What a full sync of the daemon would change now."""
    try:
        return _DRIFT[desired.mode](desired)
    except KernelError as error:
        from kubeproxy.tools.check.host import own_rights  # noqa: PLC0415  # when it went wrong

        rights = own_rights()
        if rights.administers:
            raise
        raise OperatorError(
            f"as {rights} this process may not read the rules: run it as root on the node, or in"
            f" the container of the proxy ({error})"
        ) from error


def _nftables(desired: Desired) -> list[Difference]:
    from kubeproxy.dataplane.nftables.drift import Wanted, drift  # noqa: PLC0415  # one mode a run
    from kubeproxy.dataplane.nftables.program import masquerade_mark, program  # noqa: PLC0415
    from kubeproxy.linux.nfnetlink import Nfnetlink  # noqa: PLC0415

    config = desired.config
    fixed = program(
        desired.node,
        masquerade_mark(config.masquerade_bit),
        endpoint_counters=config.nftables.endpoint_counters,
        affinity_size=config.nftables.affinity_size,
    )
    wanted = Wanted(fixed, desired.table, desired.node, desired.failed.keys())
    with Nfnetlink() as kernel:
        return drift(kernel, wanted)


def _iptables(desired: Desired) -> list[Difference]:
    from kubeproxy.dataplane.iptables.drift import drift  # noqa: PLC0415  # as above
    from kubeproxy.linux.xtables import Xtables  # noqa: PLC0415

    table, bit = desired.table, desired.config.masquerade_bit
    return drift(Xtables(table.family), table, desired.node, bit)


def _ipvs(desired: Desired) -> list[Difference]:
    from kubeproxy.dataplane.ipvs.apply import Ipvs  # noqa: PLC0415
    from kubeproxy.dataplane.ipvs.drift import drift  # noqa: PLC0415
    from kubeproxy.engine.ipvs_settings import ipvs_settings  # noqa: PLC0415  # as above
    from kubeproxy.linux.ipvs import Ipvs as VirtualServers  # noqa: PLC0415
    from kubeproxy.linux.xtables import Xtables  # noqa: PLC0415

    family = desired.table.family
    programs = Xtables(family)
    with VirtualServers() as servers:
        plane = Ipvs(family, ipvs_settings(desired.config), servers, programs)
        return drift(plane, programs, desired.table, desired.node)


_DRIFT: Final[Mapping[Mode, Callable[[Desired], list[Difference]]]] = {
    Mode.NFTABLES: _nftables,
    Mode.IPTABLES: _iptables,
    Mode.IPVS: _ipvs,
}
