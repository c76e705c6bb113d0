"""The program and its elements -> nft text: what `nft list table` prints and `nft -f` reads."""

from collections.abc import Iterable, Mapping, Sequence
from typing import assert_never

from kubeproxy.base.inet import Protocol
from kubeproxy.dataplane.nftables import language as nft


def concat(key: nft.Key) -> str:
    """A key as nft writes it."""
    return " . ".join(selector.text for selector in key)


def statement_text(statement: nft.Statement) -> str:  # noqa: C901, PLR0911, PLR0912  # one a kind
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
        case nft.ChangeElement():
            return _change_text(statement)
        case nft.Masquerade():
            return "masquerade fully-random"
        case nft.Reject():
            return "reject"
        case nft.Reset():
            return "reject with tcp reset"
        case nft.UseCounter(counter):
            return f'counter name "{counter}"'
        case nft.UseTimeout(timeout):
            return f'ct timeout set "{timeout}"'
        case nft.Limit():
            return _limit_text(statement)
        case nft.Log(group):
            return f"log group {group}"
        case nft.RuleVerdict(jump, chain):
            return f"{jump.name.lower()} {chain}".rstrip()
        case _:
            assert_never(statement)


def _change_text(statement: nft.ChangeElement) -> str:
    parts = [concat(statement.key)]
    if statement.milliseconds:
        parts.append(f"timeout {timeout_text(statement.milliseconds)}")
    if statement.limit:
        parts.append(_limit_text(statement.limit))
    if statement.data:
        parts.append(f": {concat(statement.data)}")
    return f"{statement.change.name.lower()} @{statement.set} {{ {' '.join(parts)} }}"


def _limit_text(limit: nft.Limit) -> str:
    burst = "" if limit.burst == _USUAL_BURST else f" burst {limit.burst} packets"
    over = "over " if limit.over else ""
    return f"limit rate {over}{limit.rate}/{limit.unit}{burst}"


_USUAL_BURST = 5
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms"))


def timeout_text(milliseconds: int) -> str:
    """Milliseconds as nft prints them: 3h, 1m30s."""
    parts = []
    for size, unit in _UNITS:
        count, milliseconds = divmod(milliseconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def rule_text(rule: nft.Rule) -> str:
    """One rule. A port of a known protocol is written with its name, as nft lists it."""
    text = " ".join(filter(None, map(statement_text, rule)))
    known = next((each for each in Protocol if nft.is_protocol(each) in rule), None)
    if known is None:
        return text
    header = f"{known.name.lower()} "
    text = text.replace("th dport", f"{header}dport").replace("th sport", f"{header}sport")
    # nft leaves the match out where a field of the protocol's header implies it.
    implied = any(f"{header}{field}" in text for field in ("dport", "sport", "flags", "reset"))
    return text.replace(f"{nft.is_protocol(known).text} ", "", 1) if implied else text


def _block(head: str, lines: Iterable[str]) -> list[str]:
    return [f"\t{head} {{", *(f"\t\t{line}" for line in lines), "\t}"]


def _timeout_lines(timeout: nft.SynTimeout, keyword: str) -> list[str]:
    return [
        "protocol tcp",
        f"l3proto {keyword}",
        f"policy = {{ syn_sent : {timeout.seconds} }}",
    ]


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
    if set_.seconds:
        lines.append(f"timeout {timeout_text(1000 * set_.seconds)}")
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
    keyword = nft.HEADERS[program.family].keyword
    blocks = [_block(f"counter {name}", ["packets 0 bytes 0"]) for name in program.counters]
    blocks += [
        _block(f"ct timeout {each.name}", _timeout_lines(each, keyword))
        for each in program.timeouts
    ]
    blocks += [set_lines(set_, elements.get(set_.name, ())) for set_ in program.sets]
    blocks += [chain_lines(chain) for chain in (*program.chains, *chains)]
    body = "\n\n".join("\n".join(block) for block in blocks)
    return f'table {keyword} {program.table} {{\n\tcomment "{program.comment}"\n{body}\n}}\n'
