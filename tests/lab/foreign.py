"""How often a daemon has repaired what others changed, as its metrics say it."""

import re
from collections import Counter

from lab.page import ask
from lab.stage import Lab

_SERIES = re.compile(r'kubeproxy_foreign_changes_total\{ip_family="(\w+)".*\} (\d+)')


def foreign_changes(lab: Lab) -> Counter[str]:
    """By family, those that had any."""
    _, text = ask(lab.network.node, "/metrics")
    found: Counter[str] = Counter()
    for family, number in _SERIES.findall(text):
        found[family] += int(number)
    return +found
