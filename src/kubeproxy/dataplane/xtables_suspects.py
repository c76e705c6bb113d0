"""Which match or target a kernel lacks: rules tried one by one, when it refused all together.

iptables names the last line of a table that the kernel refused, whatever is wrong with it. So
each kind of rule is tried alone, and what only refused rules use is to blame.
"""

from collections.abc import Callable, Iterable, Mapping

from kubeproxy.dataplane.xtables_chains import values_of

_PLAIN = frozenset({"ACCEPT", "DROP", "RETURN"})  # every kernel has them
_MODULES = {
    **dict.fromkeys(("tcp", "udp"), "xt_tcpudp"),
    **dict.fromkeys(("DNAT", "SNAT"), "xt_nat"),
    "MARK": "xt_mark",
    "REJECT": "ipt_REJECT or ip6t_REJECT",
}


def suspects(text: str) -> dict[str, frozenset[str]]:
    """One rule of each kind of a text: the text of it alone, with the chains that it may name.

    The values are the matches and targets that it uses.
    """
    found: dict[tuple[str, frozenset[str]], str] = {}
    for table, (chains, rules) in _tables(text).items():
        heads = "".join(f":{chain} - [0:0]\n" for chain in chains)
        for rule in rules:
            uses = frozenset(values_of(rule, {"-m", "-j"})) - _PLAIN - frozenset(chains)
            found.setdefault((table, uses), f"*{table}\n{heads}{rule}\nCOMMIT\n")
    return {alone: uses for (_, uses), alone in found.items()}


def blamed(tried: Mapping[str, frozenset[str]], works: Callable[[str], bool]) -> tuple[str, ...]:
    """What is used only by rules that do not work alone; empty when that says nothing."""
    fine = {use for alone, uses in tried.items() if works(alone) for use in uses}
    return tuple(sorted({use for uses in tried.values() for use in uses} - fine))


def modules(uses: Iterable[str]) -> str:
    """The kernel modules of matches and targets."""
    return ", ".join(dict.fromkeys(_MODULES.get(use, f"xt_{use}") for use in uses))


def _tables(text: str) -> dict[str, tuple[list[str], list[str]]]:
    """The chains of ours, and the rules, of each table of the text."""
    tables: dict[str, tuple[list[str], list[str]]] = {}
    chains: list[str] = []
    rules: list[str] = []
    for line in text.splitlines():
        if line.startswith("*"):
            chains, rules = tables.setdefault(line[1:], ([], []))
        elif line.startswith(":"):
            chains.append(line[1:].split(" ", 1)[0])
        elif line.startswith("-"):
            rules.append(line)
    return tables
