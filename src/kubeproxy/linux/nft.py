"""The `nft` program, where it is installed: how it writes rules that are not ours."""

import re
from typing import Final

from kubeproxy.linux.tools import ToolFailed, find, run

_RULE: Final = re.compile(r"^\s*(.+) # handle (\d+)$", re.MULTILINE)


def rule_texts(family: str, table: str) -> dict[int, str]:
    """The rules of a table by their handles; none without the program, or when it fails."""
    program = find("nft")
    if program is None:
        return {}
    try:
        listed = run([program, "-a", "-t", "list", "table", family, table])
    except ToolFailed:
        return {}
    return {int(handle): text for text, handle in _RULE.findall(listed)}
