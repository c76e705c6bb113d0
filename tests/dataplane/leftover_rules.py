"""Rules as `iptables-save` prints them: what iptables and ipvs mode leave among those of others.

In the files, a line of kube-proxy ends in a mark; what must stay is the rest.
"""

from pathlib import Path
from string import Template

from kubeproxy.inet import Family

_FILES = Path(__file__).parent / "leftovers"
_MARK = "  <- kube-proxy"
_WORDS = {
    Family.IPV4: {
        "VIP": "10.96.50.1/32",
        "IDLE": "10.96.50.6/32",
        "POD": "10.128.1.10/32",
        "NEAR": "10.128.1.10:8080",
        "FAR": "10.128.2.9:8080",
        "LOOP": "127.0.0.0/8",
        "UNREACHABLE": "icmp-port-unreachable",
        "SET": "KUBE-",
    },
    Family.IPV6: {
        "VIP": "fd00:10:96::5001/128",
        "IDLE": "fd00:10:96::5006/128",
        "POD": "fd00:128:1::10/128",
        "NEAR": "[fd00:128:1::10]:8080",
        "FAR": "[fd00:128:2::9]:8080",
        "LOOP": "::1/128",
        "UNREACHABLE": "icmp6-port-unreachable",
        "SET": "KUBE-6-",
    },
}


def rules(mode: str, family: Family) -> tuple[str, str]:
    """The rules with kube-proxy's among them, and without."""
    marked = Template((_FILES / f"{mode}-mode.txt").read_text()).substitute(_WORDS[family])
    lines = marked.splitlines(keepends=True)
    without = "".join(line for line in lines if not line.rstrip("\n").endswith(_MARK))
    return marked.replace(_MARK, ""), without
