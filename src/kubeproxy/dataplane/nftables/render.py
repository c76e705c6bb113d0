"""The program and its elements -> nft text: what `nft list table` prints and `nft -f` reads."""

from collections.abc import Iterable, Mapping, Sequence
from typing import assert_never

from kubeproxy.dataplane.nftables.language import (
    Chain,
    Count,
    Dnat,
    InSet,
    Is,
    IsInterface,
    IsMarked,
    IsNew,
    IsOwnSource,
    IsProtocol,
    IsTranslated,
    Jump,
    Key,
    Mark,
    Masquerade,
    Program,
    Reject,
    Rule,
    Set,
    SetPriority,
    Statement,
    Update,
    Verdict,
    VerdictMap,
)

_VERDICT_WORD = {
    Jump.DROP: "drop",
    Jump.RETURN: "return",
    Jump.JUMP: "jump",
    Jump.GOTO: "goto",
}


def concat(key: Key) -> str:
    """A key as nft writes it."""
    return " . ".join(selector.text for selector in key)


def verdict_text(verdict: Verdict) -> str:
    """A verdict as nft writes it."""
    return f"{_VERDICT_WORD[verdict.jump]} {verdict.chain}".rstrip()


def statement_text(statement: Statement) -> str:  # noqa: C901, PLR0911, PLR0912  # one line a kind
    """One statement of a rule."""
    match statement:
        case Is(selector, prefix, negate):
            operator = "!= " if negate else ""
            return f"{selector.text} {operator}{_prefix(str(prefix), selector.type.size)}"
        case IsProtocol(name):
            return f"meta l4proto {name}"
        case IsInterface(name, prefix, negate):
            operator = "!= " if negate else ""
            return f'iifname {operator}"{name}{"*" if prefix else ""}"'
        case IsNew():
            return "ct state new"
        case IsTranslated():
            return "ct status dnat"
        case IsOwnSource():
            return "fib saddr type local"
        case IsMarked(bit):
            return f"meta mark & 0x{bit:08x} != 0x00000000"
        case InSet(key, name):
            return f"{concat(key)} @{name}"
        case Mark(bit, clear):
            return f"meta mark set meta mark {'^' if clear else '|'} 0x{bit:08x}"
        case SetPriority(key, name):
            value = f"{concat(key)} map @{name}" if key else "none"
            return f"meta priority set {value}"
        case VerdictMap(key, name):
            return f"{concat(key)} vmap @{name}"
        case Dnat(family, key, name):
            keyword = "ip" if family.bits == 32 else "ip6"
            return f"dnat {keyword} to {concat(key)} map @{name}"
        case Update(name, key, data, seconds):
            timeout = f"timeout {timeout_text(seconds)}"
            return f"update @{name} {{ {concat(key)} {timeout} : {concat(data)} }}"
        case Masquerade():
            return "masquerade fully-random"
        case Reject():
            return "reject"
        case Count(counter):
            return f'counter name "{counter}"'
        case Verdict():
            return verdict_text(statement)
        case _:
            assert_never(statement)


def _prefix(text: str, size: int) -> str:
    """A prefix; nft writes one of full length as an address."""
    return text.removesuffix(f"/{8 * size}")


def timeout_text(seconds: int) -> str:
    """Seconds as nft prints them: 3h, 1m30s."""
    parts = []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def rule_text(rule: Rule) -> str:
    """One rule. A port of a known protocol is written with its name, as nft lists it."""
    words = [statement_text(statement) for statement in rule]
    known = next((each.name for each in rule if isinstance(each, IsProtocol)), None)
    if known is None:
        return " ".join(words)
    text = " ".join(words).replace("th dport", f"{known} dport")
    # nft leaves the match out where the port's protocol implies it.
    return text.replace(f"meta l4proto {known} ", "", 1) if f"{known} dport" in text else text


def _block(head: str, lines: Iterable[str]) -> list[str]:
    return [f"\t{head} {{", *(f"\t\t{line}" for line in lines), "\t}"]


def set_lines(set_: Set, elements: Sequence[str] = ()) -> list[str]:
    """The declaration of a set or map, and its elements."""
    lines = []
    keyword = "map" if set_.data or set_.verdicts else "set"
    data = "verdict" if set_.verdicts else concat(set_.data)
    if set_.typeof:
        lines.append(f"typeof {concat(set_.key)}" + (f" : {data}" if data else ""))
    else:
        names = " . ".join(selector.type.name for selector in set_.key)
        if set_.data:
            data = " . ".join(selector.type.name for selector in set_.data)
        lines.append(f"type {names}" + (f" : {data}" if data else ""))
    if set_.size:
        lines.append(f"size {set_.size}")
    flags = (["dynamic", "timeout"] if set_.dynamic else []) + ["interval"] * set_.interval
    if flags:
        lines.append(f"flags {','.join(flags)}")
    if set_.counter:
        lines.append("counter")
    lines.append(f'comment "{set_.comment}"')
    if elements:
        joined = ",\n\t\t\t     ".join(elements)
        lines.append(f"elements = {{ {joined} }}")
    return _block(f"{keyword} {set_.name}", lines)


def chain_lines(chain: Chain) -> list[str]:
    """A chain with its rules."""
    lines = []
    if chain.hook is not None:
        hook = chain.hook
        lines.append(
            f"type {hook.type} hook {hook.hook} priority {hook.priority_text}; policy accept;"
        )
    lines += [rule_text(rule) for rule in chain.rules]
    return _block(f"chain {chain.name}", lines)


def render(
    program: Program, chains: Sequence[Chain], elements: Mapping[str, Sequence[str]]
) -> str:
    """A whole table: the program, the chains of the choices in use, and all elements."""
    family = "ip" if program.family.bits == 32 else "ip6"
    blocks = [
        [f"\tcounter {name} {{", "\t\tpackets 0 bytes 0", "\t}"] for name in program.counters
    ]
    blocks += [set_lines(set_, elements.get(set_.name, ())) for set_ in program.sets]
    blocks += [chain_lines(chain) for chain in (*program.chains, *chains)]
    body = "\n\n".join("\n".join(block) for block in blocks)
    head = f'table {family} {program.table} {{\n\tcomment "{program.comment}"\n'
    return f"{head}{body}\n}}\n"
