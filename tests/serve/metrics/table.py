"""The tables of docs/metrics.md, read."""

import re
from pathlib import Path
from typing import NamedTuple

from world import Mode

_DOCUMENT = Path(__file__).parents[3] / "docs/metrics.md"
_ROW = re.compile(r"\| `(\w+)` \|" + r"([^|]*)\|" * 5)
_LETTER = {Mode.IPTABLES: "i", Mode.IPVS: "v", Mode.NFTABLES: "n", Mode.USERSPACE: "u"}


class Row(NamedTuple):
    """A metric, as documented."""

    name: str
    kind: str
    labels: frozenset[str]
    modes: frozenset[str]
    shown: str
    ours: str

    def is_in(self, mode: Mode, *, localhost: bool = False) -> bool:
        if self.ours.startswith("absent"):
            return False
        letter = _LETTER[mode]
        return letter in self.modes or (localhost and f"{letter}+" in self.modes)


def rows() -> list[Row]:
    found = []
    for line in _DOCUMENT.read_text().splitlines():
        match = _ROW.fullmatch(line)
        if match is not None:
            name, kind, labels, modes, shown, ours = (cell.strip() for cell in match.groups())
            words = frozenset(re.findall(r"\w+", labels))
            found.append(Row(name, kind, words, frozenset(modes.split()), shown, ours))
    return found
