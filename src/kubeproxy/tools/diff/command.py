"""`kube-proxy diff`: what in the kernel is not as the running proxy means it to be.

The kernel is that of this process: of this machine and this network namespace.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kubeproxy.base.errors import FieldError, KernelError, KubeProxyError, OperatorError
from kubeproxy.base.inet import Family
from kubeproxy.config.flagset import Flag, Parsed
from kubeproxy.config.kinds import INT32, STRING
from kubeproxy.dataplane.difference import Difference
from kubeproxy.dataplane.modes import load_mode
from kubeproxy.dataplane.xtables_kind import use_kind_of_node
from kubeproxy.serve.status.tablewire import Desired, read_table
from kubeproxy.serve.status.wire import DaemonStatus, NotProgrammed
from kubeproxy.tools import anyclient, client
from kubeproxy.tools.clusterflags import LISTED, WITHOUT_DAEMON
from kubeproxy.tools.command import OUTPUT, Command, not_negative, note, print_answer
from kubeproxy.tools.diff.view import Diff, FamilyDiff, lines

DIFFERENT: Final = 1
TROUBLE: Final = 2
MOMENT: Final = 1.0
"""Seconds between two looks."""
_LOOKS: Final = 10
_FLAGS: Final = (
    Flag("family", STRING, "", "IPv4 or IPv6; default: all that the proxy serves."),
    Flag("limit", INT32, 200, "Show at most so many differences as text; 0 is all."),
    OUTPUT,
    *client.FLAGS,
)
_AFTERWARDS: Final = """
Prints what the proxy's next full sync would change in the kernel, and changes nothing: + would be
added, - would be removed, ! would be replaced. Nothing is printed when the kernel is as it should
be. It reads the kernel of the machine and network namespace that it runs in: run it where the
proxy runs. It needs CAP_NET_ADMIN.

Where no proxy answers, the kernel is compared with what a new one would write, from the cluster
that the flags name.

Exit codes: 0 when there is no difference, 1 when there is one, 2 when something went wrong, 3 when
no proxy answers and no cluster is named.
"""


def main(arguments: Sequence[str]) -> int:
    """Show the differences; errors have another exit code than differences, as with diff(1)."""
    try:
        return COMMAND.main(arguments)
    except KubeProxyError as error:
        if error.exit_code == DIFFERENT:
            error.exit_code = TROUBLE
        raise


def _run(parsed: Parsed) -> int:
    limit = not_negative(parsed, "limit")
    daemon = anyclient.connect(parsed)
    families = _families(daemon, parsed.value("family", str))
    seen = lasting(lambda family: _look(daemon, family), families)
    found = tuple(_family_diff(family, each) for family, each in seen.items())
    print_answer(parsed, Diff(found), lambda _: lines(found, limit), cut=False)
    return 0 if all(family.equal for family in found) else DIFFERENT


COMMAND: Final = Command(
    "diff",
    (*_FLAGS, *WITHOUT_DAEMON),
    _run,
    _AFTERWARDS,
    listed=(*_FLAGS, *LISTED),
    kernel=True,
)
usage_text = COMMAND.usage_text


def _families(daemon: client.Client, wanted: str) -> list[Family]:
    """The families that the daemon serves, or the wanted one of them."""
    served = [Family(each.ip_family) for each in daemon.get("/status", DaemonStatus).families]
    found = [each for each in served if not wanted or each.value.lower() == wanted.lower()]
    if not found:
        known = " or ".join(each.value for each in served)
        raise FieldError("family", wanted, f"the proxy serves {known}")
    return found


class Seen(NamedTuple):
    """One family: what the daemon said last, and how the kernel differs from it."""

    desired: Desired
    differences: list[Difference]


def _look(daemon: client.Client, family: Family) -> Seen:
    desired = read_table(daemon.read("/status/table", {"family": family.value}))
    return Seen(desired, drift(desired))


def drift(desired: Desired) -> list[Difference]:
    """What a full sync of the daemon would change now."""
    mode = load_mode(desired.mode)
    if mode.uses_iptables:
        use_kind_of_node()
    try:
        return mode.drift(desired.config, desired.table, desired.node, desired.failed.keys())
    except KernelError as error:
        from kubeproxy.tools.check.host import own_rights  # noqa: PLC0415  # when it went wrong

        rights = own_rights()
        if rights.administers:
            raise
        raise OperatorError(
            f"as {rights} this process may not read the rules: run it as root on the node, or in"
            f" the container of the proxy ({error})"
        ) from error


def lasting(
    look: Callable[[Family], Seen],
    families: Sequence[Family],
    wait: Callable[[float], None] = time.sleep,
) -> dict[Family, Seen]:
    """Differences that two looks agree on, with a moment and no sync between them.

    A sync may come between the daemon's answer and the kernel's, so one look is not to be
    believed; nor are two while a sync is under way, or when one has ended meanwhile.
    """
    seen = {family: look(family) for family in families}
    unsure = [family for family in families if seen[family].differences]
    for _ in range(_LOOKS - 1):
        if not unsure:
            break
        wait(MOMENT)
        still = []
        for family in unsure:
            before = seen[family]
            desired, again = look(family)
            present = frozenset(again)
            both = [each for each in before.differences if each in present]
            seen[family] = Seen(desired, both)
            if both and (desired.syncing or desired.syncs != before.desired.syncs):
                still.append(family)
        unsure = still
    return seen


def _family_diff(family: Family, seen: Seen) -> FamilyDiff:
    desired, found = seen
    if desired.syncing and found:
        note(f"{family.value}: a sync is under way, which may be about to write some of this")
    failed = tuple(
        NotProgrammed(str(name), name.protocol.name, reason)
        for name, reason in desired.failed.items()
    )
    equal = not found and not failed
    return FamilyDiff(family.value, desired.mode, equal, tuple(found), failed)
