"""Which match or target a kernel lacks: rules tried one by one, when it refused all together.

iptables names the last line of a table that the kernel refused, whatever is wrong with it. So
each kind of rule is tried alone, and what only refused rules use is to blame.
"""

from collections.abc import Iterable, Mapping

import msgspec

from kubeproxy.dataplane.xtables_chains import values_of

_PLAIN = frozenset({"ACCEPT", "DROP", "RETURN"})  # every kernel has them
_MODULES = {
    **dict.fromkeys(("tcp", "udp"), "xt_tcpudp"),
    **dict.fromkeys(("DNAT", "SNAT"), "xt_nat"),
    "MARK": "xt_mark",
    "REJECT": "ipt_REJECT or ip6t_REJECT",
}


class Suspect(msgspec.Struct, frozen=True):
    """A text for `iptables-restore` with one rule, and the matches and targets that it uses."""

    uses: frozenset[str]
    text: str


def suspects(text: str) -> tuple[Suspect, ...]:
    """One rule of each kind of a text, each with the chains that it may name."""
    found: dict[tuple[str, frozenset[str]], Suspect] = {}
    for table, (chains, rules) in _tables(text).items():
        heads = "".join(f":{chain} - [0:0]\n" for chain in chains)
        for rule in rules:
            uses = frozenset(values_of(rule, {"-m", "-j"})) - _PLAIN - frozenset(chains)
            alone = f"*{table}\n{heads}{rule}\nCOMMIT\n"
            found.setdefault((table, uses), Suspect(uses, alone))
    return tuple(found.values())


def blamed(tried: Mapping[Suspect, bool]) -> tuple[str, ...]:
    """What was used only by rules that were refused; empty when that says nothing."""
    fine = {use for suspect, worked in tried.items() if worked for use in suspect.uses}
    return tuple(sorted({use for suspect in tried for use in suspect.uses if use not in fine}))


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
