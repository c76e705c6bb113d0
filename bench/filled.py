"""How full the sets are that healing has packets fill, and the connection tracker."""

import json
from collections import Counter
from pathlib import Path

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.nftables.healing import sets
from kubeproxy.dataplane.nftables.language import HEADERS
from lab.namespaces import Namespace

TRACKED = "entries of the connection tracker"
_TRACKED = Path("/proc/sys/net/netfilter/nf_conntrack_count")


def elements(node: Namespace, *families: Family) -> Counter[str]:
    """How many elements each set of a family has; there are none without healing."""
    found: Counter[str] = Counter()
    for family in families:
        headers = HEADERS[family]
        table = ("table", headers.keyword, "kube-proxy")
        names = {each.name for each in sets(headers, 1) if each.dynamic}
        for each in json.loads(node.run(["nft", "-j", "list", *table]))["nftables"]:
            of = each.get("set") or each.get("map")
            if of and of["name"] in names:
                found[f"{headers.keyword} {of['name']}"] = len(of.get("elem", ()))
    with node.entered():
        found[TRACKED] = int(_TRACKED.read_text())
    return found
