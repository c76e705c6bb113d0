"""Asks the kernel at the start whether it can do all that the program may need."""

import msgspec

from kubeproxy.base.errors import KernelError
from kubeproxy.dataplane.nftables import choices
from kubeproxy.dataplane.nftables.batch import program_messages
from kubeproxy.dataplane.nftables.language import Program
from kubeproxy.dataplane.nftables.program import NftablesSettings, program
from kubeproxy.dataplane.nftables.render import rule_text
from kubeproxy.linux.netlink.message import WHOLE_BATCH
from kubeproxy.linux.netlink_socket import Refused
from kubeproxy.linux.nfnetlink import Nfnetlink
from kubeproxy.table.entries import Balance
from kubeproxy.table.node import NodeView

PROBE_TABLE = "kube-proxy-probe"
OLDEST_KERNEL = (5, 13)


class KernelTooOldError(KernelError):
    """This kernel cannot do what nftables mode needs; `lacks` says it in few words."""

    def __init__(self, lacks: str, remedy: str, said: str = "") -> None:
        super().__init__(f"{lacks}{said}; {remedy}")
        self.lacks = lacks
        self.remedy = remedy


def check_release(release: str) -> None:
    """Refuse kernels in which nftables mode is known not to work."""
    numbers = release.split("-", maxsplit=1)[0].split(".")[:2]
    known = all(number.isdigit() for number in numbers) and len(numbers) == 2
    if known and (int(numbers[0]), int(numbers[1])) < OLDEST_KERNEL:
        raise KernelTooOldError(
            f"kube-proxy in nftables mode requires kernel 5.13 or later, this is {release}",
            "use another mode, or set KUBE_PROXY_NFTABLES_SKIP_KERNEL_VERSION_CHECK to try anyway",
        )


def probe_healing(kernel: Nfnetlink, node: NodeView, *, wanted: bool) -> str:
    """Why the kernel cannot do what healing needs, or "". An error where it is `wanted`."""
    try:
        probe(kernel, node, heals=True)
    except KernelTooOldError as error:
        if not wanted:
            return str(error)
        lacks = error.lacks.replace("nftables mode", "nftables.healing")
        raise KernelTooOldError(
            lacks, "use a newer kernel, or set nftables.healing.parts to none"
        ) from error
    return ""


def probe(kernel: Nfnetlink, node: NodeView, *, heals: bool = False) -> None:
    """Rehearse a program with every kind of statement; nothing is written.

    The error names the first statement that the kernel refuses. Without privileges, or without
    nf_tables, it says that.
    """
    kernel.generation()
    fixed = program(node, NftablesSettings(), heals=heals)
    every_choice = (choices.chain_of(each, node) for each in choices.with_parts(_EVERY_CHOICE))
    chains = (*fixed.chains, *every_choice)
    wanted = msgspec.structs.replace(fixed, table=PROBE_TABLE, chains=chains)
    try:
        kernel.rehearse(program_messages(wanted))
    except Refused as error:
        first = error.errors[0]
        if first.index == WHOLE_BATCH:
            raise
        what = _descriptions(wanted)[first.index]
        raise KernelTooOldError(
            f"the kernel cannot do what nftables mode needs: it refuses {what}",
            "load the missing nft_* module, use a newer kernel, or choose another proxy mode",
            f" ({error})",
        ) from error


_PICK = choices.Pick(node_port=False, local=False, count=2, sticky=True)
_REMEMBER = choices.Remember(node_port=False, local=False, seconds=10800)
_MASQUERADED = msgspec.structs.replace(_PICK, masquerade=True)
_EVERY_CHOICE = (
    choices.Split(_PICK, _MASQUERADED, msgspec.structs.replace(_PICK, local=True)),
    choices.Pick(node_port=False, local=False, count=2, balance=Balance.ROUND_ROBIN),
    choices.Pick(node_port=False, local=False, count=2, balance=Balance.SOURCE_HASH),
    choices.Split(_REMEMBER, _REMEMBER, msgspec.structs.replace(_REMEMBER, local=True)),
)


def _descriptions(wanted: Program) -> list[str]:
    """What each of the program's messages makes, in their order."""
    return [
        f"the table {wanted.table}",
        *(f"the counter {name}" for name in wanted.counters),
        *(f"the time-outs {each.name}" for each in wanted.timeouts),
        *(f"the set {set_.name}" for set_ in wanted.sets),
        *(f"the chain {chain.name}" for chain in wanted.chains),
        *(f"the rule {rule_text(rule)!r}" for chain in wanted.chains for rule in chain.rules),
    ]
