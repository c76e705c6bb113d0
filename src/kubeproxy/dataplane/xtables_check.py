"""Tries rules with `iptables-restore`, and finds out what the kernel lacks for them."""

from functools import partial

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.preflight import Finding, lacking, ok
from kubeproxy.dataplane.xtables_suspects import blamed, modules, suspects
from kubeproxy.linux.xtables import Xtables, find_program


def has_programs(family: Family) -> bool:
    """Whether the programs that write rules are installed."""
    return find_program(family, "-restore") is not None


def restored(topic: str, family: Family, text: str) -> Finding:
    """Restore rules; the finding names what the kernel lacks, where each rule alone shows it."""
    what = f"{family.value} rules"
    programs = Xtables(family)
    try:
        programs.restore(text)
    except KernelError as error:
        uses = blamed(suspects(text), partial(_works, programs))
        another = "or choose nftables"
        if not uses:
            return lacking(topic, what, str(error), f"see what the program says, {another}")
        return lacking(
            topic,
            what,
            f"the kernel or the program lacks {', '.join(uses)}",
            f"modprobe {modules(uses)} (a kernel may be built without), {another}",
        )
    rules = text.count("\n-A ") + text.count("\n-I ")
    return ok(topic, what, f"{rules} rules written")


def _works(programs: Xtables, text: str) -> bool:
    try:
        programs.restore(text)
    except KernelError:
        return False
    return True
