"""The program and its elements -> nft text: what `nft list table` prints and `nft -f` reads."""

from collections.abc import Iterable, Mapping, Sequence
from typing import assert_never

from kubeproxy.base.inet import Protocol
from kubeproxy.dataplane.nftables import language as nft


def concat(key: nft.Key) -> str:
    """A key as nft writes it."""
    return " . ".join(selector.text for selector in key)


def statement_text(statement: nft.Statement) -> str:  # noqa: C901, PLR0911  # one a kind
    """One statement of a rule."""
    match statement:
        case nft.Match(text):
            return text
        case nft.InSet(key, name):
            return f"{concat(key)} @{name}"
        case nft.Mark(bit, clear):
            return f"meta mark set meta mark {'^' if clear else '|'} 0x{bit:08x}"
        case nft.SetPriority(key, name):
            value = f"{concat(key)} map @{name}" if name else concat(key)
            return f"meta priority set {value or 'none'}"
        case nft.VerdictMap(key, name):
            return f"{concat(key)} vmap @{name}"
        case nft.Dnat(family, key, name):
            return f"dnat {nft.HEADERS[family].keyword} to {concat(key)} map @{name}"
        case nft.UpdateMap(name, key, data, seconds):
            timeout = f"timeout {timeout_text(seconds)}"
            return f"update @{name} {{ {concat(key)} {timeout} : {concat(data)} }}"
        case nft.Masquerade():
            return "masquerade fully-random"
        case nft.Reject():
            return "reject"
        case nft.UseCounter(counter):
            return f'counter name "{counter}"'
        case nft.RuleVerdict(jump, chain):
            return f"{jump.name.lower()} {chain}".rstrip()
        case _:
            assert_never(statement)


def timeout_text(seconds: int) -> str:
    """Seconds as nft prints them: 3h, 1m30s."""
    parts = []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def rule_text(rule: nft.Rule) -> str:
    """One rule. A port of a known protocol is written with its name, as nft lists it."""
    text = " ".join(map(statement_text, rule))
    known = next((each for each in Protocol if nft.is_protocol(each) in rule), None)
    if known is None:
        return text
    port = f"{known.name.lower()} dport"
    text = text.replace("th dport", port)
    # nft leaves the match out where the port's protocol implies it.
    return text.replace(f"{nft.is_protocol(known).text} ", "", 1) if port in text else text


def _block(head: str, lines: Iterable[str]) -> list[str]:
    return [f"\t{head} {{", *(f"\t\t{line}" for line in lines), "\t}"]


def set_lines(set_: nft.Set, elements: Sequence[str] = ()) -> list[str]:
    """The declaration of a set or map, and its elements."""

    def types(key: nft.Key) -> str:
        return concat(key) if set_.typeof else " . ".join(selector.type.name for selector in key)

    data = "verdict" if set_.verdicts else types(set_.data)
    kind = f"{'typeof' if set_.typeof else 'type'} {types(set_.key)}"
    lines = [f"{kind} : {data}" if data else kind]
    if set_.size:
        lines.append(f"size {set_.size}")
    flags = ["dynamic", "timeout"] * set_.dynamic + ["interval"] * set_.interval
    if flags:
        lines.append(f"flags {','.join(flags)}")
    if set_.counter:
        lines.append("counter")
    lines.append(f'comment "{set_.comment}"')
    if elements:
        joined = ",\n\t\t\t     ".join(elements)
        lines.append(f"elements = {{ {joined} }}")
    return _block(f"{'map' if set_.is_map else 'set'} {set_.name}", lines)


def chain_lines(chain: nft.Chain) -> list[str]:
    """A chain with its rules."""
    lines = [rule_text(rule) for rule in chain.rules]
    if chain.hook is not None:
        hook, priority = chain.hook, chain.hook.priority_text
        lines.insert(0, f"type {hook.type} hook {hook.hook} priority {priority}; policy accept;")
    return _block(f"chain {chain.name}", lines)


def render(
    program: nft.Program, chains: Sequence[nft.Chain], elements: Mapping[str, Sequence[str]]
) -> str:
    """A whole table: the program, the chains of the choices in use, and all elements."""
    blocks = [_block(f"counter {name}", ["packets 0 bytes 0"]) for name in program.counters]
    blocks += [set_lines(set_, elements.get(set_.name, ())) for set_ in program.sets]
    blocks += [chain_lines(chain) for chain in (*program.chains, *chains)]
    body = "\n\n".join("\n".join(block) for block in blocks)
    keyword = nft.HEADERS[program.family].keyword
    return f'table {keyword} {program.table} {{\n\tcomment "{program.comment}"\n{body}\n}}\n'
