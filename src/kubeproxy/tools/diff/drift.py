"""How far the kernel is from the desired state of the daemon, in the daemon's mode.

The kernel is that of this process: of this machine and this network namespace.
"""

from kubeproxy.base.errors import KernelError, OperatorError
from kubeproxy.dataplane.difference import Difference
from kubeproxy.dataplane.modes import load_mode
from kubeproxy.serve.status.tablewire import Desired


def drift(desired: Desired) -> list[Difference]:
    """What a full sync of the daemon would change now."""
    compare = load_mode(desired.mode).drift
    try:
        return compare(desired.config, desired.table, desired.node, desired.failed.keys())
    except KernelError as error:
        from kubeproxy.tools.check.host import own_rights  # noqa: PLC0415  # when it went wrong

        rights = own_rights()
        if rights.administers:
            raise
        raise OperatorError(
            f"as {rights} this process may not read the rules: run it as root on the node, or in"
            f" the container of the proxy ({error})"
        ) from error
