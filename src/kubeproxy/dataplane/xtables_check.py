"""Tries rules with `iptables-restore`, and finds out what the kernel lacks for them."""

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.preflight import Finding, lacking, ok, unfinished
from kubeproxy.dataplane.xtables_suspects import blamed, modules, suspects
from kubeproxy.linux.xtables import Xtables, XtablesFailed, find_program


def has_programs(family: Family) -> bool:
    """Whether the programs that write rules are installed."""
    return find_program(family, "-restore") is not None


def restored(topic: str, family: Family, text: str) -> Finding:
    """Restore rules; the finding names what the kernel lacks, where each rule alone shows it."""
    what = f"{family.value} rules"
    programs = Xtables(family)
    try:
        refusal = _refusal(programs, text)
        if not refusal:
            rules = text.count("\n-A ") + text.count("\n-I ")
            return ok(topic, what, f"{rules} rules written")
        uses = blamed(suspects(text), lambda alone: not _refusal(programs, alone))
    except XtablesFailed as error:
        return unfinished(topic, what, error)
    another = "or choose nftables"
    if not uses:
        return lacking(topic, what, refusal, f"see what the program says, {another}")
    return lacking(
        topic,
        what,
        f"the kernel or the program lacks {', '.join(uses)}",
        f"modprobe {modules(uses)} (a kernel may be built without), {another}",
    )


def _refusal(programs: Xtables, text: str) -> str:
    """Why these rules are refused, "" when they are written; raises when the program is killed."""
    try:
        programs.restore(text)
    except XtablesFailed as error:
        if not error.ended:
            raise
        return str(error)
    return ""
