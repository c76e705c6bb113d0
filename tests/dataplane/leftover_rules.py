"""What releases of kube-proxy leave in the kernel, in each mode, and what others have there.

`leftovers/RELEASE-MODE.txt` is what a release gives to `ipset restore` and to `iptables-restore
--noflush` for five small services: web (session affinity), dns (UDP), shop (load balancer with a
source range, external IP, node port, local policy), sig (SCTP, node port) and idle (no endpoints).
Names of chains have the services' names where kube-proxy has a hash. A release stands for those
after it, up to the next that wrote something else.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from string import Template

import msgspec

from kubeproxy.base.inet import Family

_FILES = Path(__file__).parent / "leftovers"
_SECTION = re.compile(r"-- (.+) --\n")
_UNLESS_KUBELET = "rules unless the kubelet made them"
_SET_NAME = re.compile(r"(KUBE-6-[A-Z-]{24})[A-Z-]+")  # the kernel takes 31 characters
_BUILT_IN = {
    "mangle": ("PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"),
    "filter": ("INPUT", "FORWARD", "OUTPUT"),
    "nat": ("PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"),
}
# kube-proxy writes this rule beside the kubelet, for IPv4 only.
_GUARD = (
    '-A KUBE-FIREWALL -m comment --comment "block incoming localnet connections" -d 127.0.0.0/8'
    " ! -s 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP"
)
_ADDRESSES = {
    "WEB": ("10.96.50.1", "fd00:10:96::5001"),
    "DNS": ("10.96.50.2", "fd00:10:96::5002"),
    "SHOP": ("10.96.50.3", "fd00:10:96::5003"),
    "SIG": ("10.96.50.4", "fd00:10:96::5004"),
    "IDLE": ("10.96.50.6", "fd00:10:96::5006"),
    "EXTERNAL": ("198.51.100.10", "2001:db8:1::10"),
    "LB": ("203.0.113.10", "2001:db8:2::10"),
    "NEAR": ("10.128.1.10", "fd00:128:1::10"),
    "FAR": ("10.128.2.9", "fd00:128:2::9"),
    "HOST": ("10.201.1.2", "fd00:201:1::2"),
    "PODS": ("10.128.0.0/9", "fd00:128::/32"),
    "ALLOWED": ("10.201.0.0/16", "fd00:201::/32"),
    "LOOP": ("127.0.0.0/8", "::1/128"),
    "FAMILY": ("inet", "inet6"),
    "NFT": ("ip", "ip6"),
    "ADDRESS": ("ipv4_addr", "ipv6_addr"),
    "GUARD": (_GUARD, ""),
}
SERVED = ("WEB", "DNS", "SHOP", "SIG", "EXTERNAL", "LB")


class Leftover(msgspec.Struct, frozen=True):
    """A release and a mode of it. Old ones know one family at a time, with the same sets."""

    release: str
    mode: str
    is_dual_stack: bool = True

    def __str__(self) -> str:
        return f"{self.release}-{self.mode}"


LEFTOVERS = (
    Leftover("1.9", "ipvs", is_dual_stack=False),
    Leftover("1.13", "userspace"),
    Leftover("1.13", "iptables"),
    Leftover("1.13", "ipvs", is_dual_stack=False),
    *(Leftover(f"1.{n}", mode) for n in (20, 24, 28, 35) for mode in ("iptables", "ipvs")),
)
IPTABLES, IPVS = LEFTOVERS[-2:]


def rules(leftover: Leftover, family: Family) -> str:
    """What kube-proxy adds where the kubelet is."""
    return _sections(leftover, family)["rules"]


def rules_without_kubelet(leftover: Leftover, family: Family) -> str:
    """What it adds where no kubelet has been: chains that both make, and all others."""
    sections = _sections(leftover, family)
    return sections.get(_UNLESS_KUBELET, "") + sections["rules"]


def sets(leftover: Leftover, family: Family) -> str:
    """The sets with their members, for `ipset restore`."""
    return _sections(leftover, family).get("sets", "")


def servers(leftover: Leftover, family: Family) -> str:
    """The virtual servers, for `ipvsadm -R`."""
    lines = _read("servers.txt", leftover, family).splitlines(keepends=True)
    knows_sctp = leftover.release != "1.9"
    return "".join(line for line in lines if knows_sctp or "sctp" not in line)


def address(name: str, family: Family) -> str:
    """What a name of the files stands for."""
    return _ADDRESSES[name][list(Family).index(family)]


def nftables(family: Family) -> str:
    """The table of upstream's nftables mode, for `nft -f`."""
    return _read("1.35-nftables.txt", IPTABLES, family)


def others(family: Family) -> str:
    """What other programs have."""
    return _read("others.txt", IPTABLES, family)


def kubelet(family: Family) -> str:
    """What the kubelet has: of releases before 1.28, which had the most."""
    return _read("kubelet.txt", IPTABLES, family)


def ordinary(text: str) -> str:
    """The rules without matches that few kernels have: nfacct and ipvs."""
    without = re.sub(r" -m nfacct --nfacct-name \S+", "", text)
    return re.sub(r".* -m ipvs .*\n", "", without)


def listing(*texts: str) -> str:
    """The rules as `iptables-save` lists them once all texts have been restored."""
    chains: dict[str, list[str]] = {table: [] for table in _BUILT_IN}
    listed: dict[str, list[str]] = {table: [] for table in _BUILT_IN}
    for table, line in _lines(texts):
        if line.startswith(":"):
            chains[table].append(line)
        elif line.startswith("-I"):
            listed[table].insert(0, line.replace("-I", "-A", 1))
        else:
            listed[table].append(line)
    return "".join(
        "\n".join(
            [
                f"*{table}",
                *(f":{chain} ACCEPT [0:0]" for chain in built_in),
                *sorted(chains[table]),
                *listed[table],
                "COMMIT\n",
            ]
        )
        for table, built_in in _BUILT_IN.items()
    )


def _lines(texts: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    table = ""
    for line in "".join(texts).splitlines():
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith((":", "-")):
            yield table, line


def _sections(leftover: Leftover, family: Family) -> dict[str, str]:
    _, *parts = _SECTION.split(_read(f"{leftover}.txt", leftover, family))
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _read(file: str, leftover: Leftover, family: Family) -> str:
    words = {name: address(name, family) for name in _ADDRESSES}
    is_ipv6 = family is Family.IPV6
    at = {f"{name}_AT": f"[{word}]" if is_ipv6 else word for name, word in words.items()}
    prefix = "KUBE-6-" if is_ipv6 and leftover.is_dual_stack else "KUBE-"
    text = Template((_FILES / file).read_text()).substitute(words, **at, SET=prefix)
    return _SET_NAME.sub(r"\1", text)
