"""The trial of iptables mode: its own rules for a small cluster, restored for real."""

from collections.abc import Iterable

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.iptables.parse import Found
from kubeproxy.dataplane.iptables.render import JUMPS, restore_text
from kubeproxy.dataplane.iptables.setup import COUNTERS, Options, setup_of
from kubeproxy.dataplane.iptables.state import everything
from kubeproxy.linux.nfacct import ensure_counters
from kubeproxy.linux.xtables import Xtables, find_program
from kubeproxy.tools.check.finding import Finding, State, Topic, lacking, ok
from kubeproxy.tools.check.judge import one_will_do
from kubeproxy.tools.check.sample import sample_node, sample_table
from kubeproxy.tools.check.suspects import blamed, modules, suspects


def written(families: Iterable[Family], masquerade_bit: int) -> list[Finding]:
    """Write every kind of rule. For a scratch namespace."""
    counters = _counters()
    options = Options(masquerade_bit, counters=counters)
    rules = [
        restored(Topic.IPTABLES, family, _text(family, options))
        for family in families
        if has_programs(family)
    ]
    return [_counter_finding(counters), *one_will_do(rules, "the family is not served")]


def has_programs(family: Family) -> bool:
    """Whether the programs that write rules are there."""
    return find_program(family, "-restore") is not None


def restored(topic: Topic, family: Family, text: str) -> Finding:
    """Restore rules; what the kernel lacks for them is named."""
    what = f"{family.value} rules"
    programs = Xtables(family)
    try:
        programs.restore(text)
    except KernelError as error:
        return _refused(topic, what, programs, text, error)
    rules = text.count("\n-A ") + text.count("\n-I ")
    return ok(topic, what, f"{rules} rules written")


def _text(family: Family, options: Options) -> str:
    node = sample_node(family)
    _, services = everything(sample_table(family), setup_of(node, options), Found())
    text = restore_text(node, options, services)
    for table in dict.fromkeys(jump.table for jump in JUMPS):
        targets = dict.fromkeys(jump.target for jump in JUMPS if jump.table == table)
        heads = "".join(f":{target} - [0:0]\n" for target in targets if target not in text)
        rules = "".join(
            f"-I {jump.chain} {' '.join(map(_quoted, jump.words))}\n"
            for jump in JUMPS
            if jump.table == table
        )
        text += f"*{table}\n{heads}{rules}COMMIT\n"
    return text


def _quoted(word: str) -> str:
    return f'"{word}"' if " " in word else word


def _counters() -> frozenset[str]:
    try:
        return frozenset(COUNTERS) - ensure_counters(COUNTERS).keys()
    except KernelError:
        return frozenset()


def _counter_finding(counters: frozenset[str]) -> Finding:
    what = "nfacct counters"
    if counters == frozenset(COUNTERS):
        return ok(Topic.IPTABLES, what, "two metrics of dropped and local packets have figures")
    return lacking(
        Topic.IPTABLES,
        what,
        "the kernel has none: two metrics of dropped and local packets stay without figures",
        "modprobe nfnetlink_acct, if you want them",
        State.WARNING,
    )


def _refused(topic: Topic, what: str, programs: Xtables, text: str, error: KernelError) -> Finding:
    """Name the matches and targets that are at fault, where trying rules alone tells them."""
    uses = blamed({suspect: _works(programs, suspect.text) for suspect in suspects(text)})
    another = "or choose nftables"
    if not uses:
        return lacking(topic, what, str(error), f"see what the program says, {another}")
    names = modules(uses)
    return lacking(
        topic,
        what,
        f"the kernel or the program lacks {', '.join(uses)}",
        f"modprobe {names} (a kernel may be built without), {another}",
    )


def _works(programs: Xtables, text: str) -> bool:
    try:
        programs.restore(text)
    except KernelError:
        return False
    return True
