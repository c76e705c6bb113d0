"""The trial of iptables mode: its own rules for a small cluster, restored for real."""

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.iptables.render import JUMPS, restore_text
from kubeproxy.dataplane.iptables.setup import COUNTERS, Options, setup_of
from kubeproxy.dataplane.iptables.state import everything
from kubeproxy.dataplane.preflight import Finding, Grade, Machine, lacking, ok, one_will_do
from kubeproxy.dataplane.sample import sample_node, sample_table
from kubeproxy.dataplane.xtables_check import has_programs, restored
from kubeproxy.linux.nfacct import ensure_counters

_TOPIC = "iptables"


def trial(masquerade_bit: int, machine: Machine) -> list[Finding]:
    """Write every kind of rule. For a scratch namespace."""
    counters = _counters()
    options = Options(masquerade_bit, counters=counters)
    rules = [
        restored(_TOPIC, family, _text(family, options))
        for family in machine.families
        if has_programs(family)
    ]
    return [_counter_finding(counters), *one_will_do(rules, "the family is not served")]


def _text(family: Family, options: Options) -> str:
    node = sample_node(family)
    _, services = everything(sample_table(family), setup_of(node, options))
    text = restore_text(node, options, services)
    for table in ("filter", "nat"):
        jumps = [jump for jump in JUMPS if jump.table == table]
        missing = dict.fromkeys(jump.target for jump in jumps if jump.target not in text)
        heads = "".join(f":{target} - [0:0]\n" for target in missing)
        rules = "".join(f"-I {jump.chain} {jump.rule}\n" for jump in jumps)
        text += f"*{table}\n{heads}{rules}COMMIT\n"
    return text


def _counters() -> frozenset[str]:
    try:
        return frozenset(COUNTERS) - ensure_counters(COUNTERS).keys()
    except KernelError:
        return frozenset()


def _counter_finding(counters: frozenset[str]) -> Finding:
    what = "nfacct counters"
    if counters == frozenset(COUNTERS):
        return ok(_TOPIC, what, "two metrics of dropped and local packets have figures")
    return lacking(
        _TOPIC,
        what,
        "the kernel has none: two metrics of dropped and local packets stay without figures",
        "modprobe nfnetlink_acct, if you want them",
        Grade.WARNING,
    )
