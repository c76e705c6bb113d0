"""iptables programs without a kernel: chains, jumps and restores are kept, and can be refused."""

from collections.abc import Sequence

from kubeproxy.base.inet import Family
from kubeproxy.linux.xtables import Xtables, XtablesFailed


class FakeXtables(Xtables):
    """As the real ones, as far as the dataplane sees them. `broken` is why nothing works.

    The first line with one of the words `refused` is refused, and nothing restored.
    """

    def __init__(self, family: Family = Family.IPV4) -> None:
        super().__init__(family)
        self.chains: set[tuple[str, str]] = set()
        self.rules: list[tuple[str, str, tuple[str, ...]]] = []
        self.restored: list[str] = []
        self.broken = ""
        self.no_save = False
        self.no_new_chains = False
        self.looks = 0
        self.refused: tuple[str, ...] = ()

    def is_nft(self) -> bool:
        return False

    def ensure_chain(self, table: str, chain: str) -> None:
        self._check()
        if self.no_new_chains:
            raise XtablesFailed("cannot make a chain")
        self.chains.add((table, chain))

    def has_chain(self, table: str, chain: str) -> bool:
        self._check()
        self.looks += 1
        return (table, chain) in self.chains

    def ensure_rule(self, table: str, chain: str, words: Sequence[str]) -> bool:
        self._check()
        rule = (table, chain, tuple(words))
        if rule in self.rules:
            return False
        self.rules.append(rule)
        return True

    def save(self, table: str) -> str:
        if self.no_save:
            raise XtablesFailed("cannot save")
        return "".join(f":{chain} - [0:0]\n" for of, chain in sorted(self.chains) if of == table)

    def restore(self, text: str) -> None:
        self._check()
        for line in text.splitlines():
            if any(word in line for word in self.refused):
                raise XtablesFailed(f"refused: {line}", 2, [line])
        self.restored.append(text)
        table = ""
        for line in text.splitlines():
            if line.startswith("*"):
                table = line[1:]
            elif line.startswith(":"):
                self.chains.add((table, line[1:].split()[0]))
            elif line.startswith("-X "):
                self.chains.remove((table, line[3:]))

    def _check(self) -> None:
        if self.broken:
            raise XtablesFailed(self.broken)
