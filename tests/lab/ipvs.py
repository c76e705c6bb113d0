"""ipvs mode in the lab. It needs a kernel with ipvs, such as the test kernel (`python -m uml`)."""

import contextlib
import re
from collections.abc import Iterator

from kubeproxy.base.inet import Family, Protocol, join
from lab.namespaces import Namespace
from lab.stage import Variant
from world import Mode

DEVICE = "kube-ipvs0"
_FLUSH = f"""
ipvsadm -C
ip link del {DEVICE} 2>/dev/null
for restore in iptables-restore ip6tables-restore; do
    printf '*nat\\nCOMMIT\\n*filter\\nCOMMIT\\n' | $restore || exit
done
ipset destroy
"""
IPVS = Variant(
    "ipvs",
    Mode.IPVS,
    ("--proxy-mode=ipvs",),
    ("ipvsadm", "-Sn"),
    (("sh", "-c", _FLUSH),),
    DEVICE,
    lists_each_change=False,  # a process costs much in the test kernel
)
_OPTION = {Protocol.TCP: "-t", Protocol.UDP: "-u", Protocol.SCTP: "--sctp-service"}
_REAL = re.compile(r" -r \[?([^\]]+)\]?:(\d+) -m -w (\d+)")


@contextlib.contextmanager
def flushed(node: Namespace) -> Iterator[None]:
    """Afterwards, nothing of ipvs mode is left."""
    try:
        yield
    finally:
        for command in IPVS.flush:
            node.run(command)


def option(address: str, port: int, protocol: Protocol = Protocol.TCP) -> list[str]:
    """How ipvsadm names a virtual server."""
    return [_OPTION[protocol], join(address, port)]


def servers(node: Namespace) -> list[str]:
    """The virtual servers, as ipvsadm would make them: `-t 10.112.0.21:80 -s rr`."""
    lines = node.run(["ipvsadm", "-Sn"]).splitlines()
    return [line.removeprefix("-A ") for line in lines if line.startswith("-A ")]


def reals(
    node: Namespace, address: str, port: int = 80, protocol: Protocol = Protocol.TCP
) -> dict[str, int]:
    """The addresses of a virtual server's real servers, with their weights."""
    lines = node.run(["ipvsadm", "-Sn"]).splitlines()
    start = " ".join(["-a", *option(address, port, protocol), "-r"])
    found = (_REAL.search(line) for line in lines if line.startswith(start))
    return {match[1]: int(match[3]) for match in found if match is not None}


def addresses(node: Namespace, family: Family = Family.IPV4) -> list[str]:
    """The addresses of the dummy device, if there is one."""
    flag = "-4" if family is Family.IPV4 else "-6"
    lines = node.run(["ip", flag, "-brief", "address"]).splitlines()
    found = (line.split()[2:] for line in lines if line.startswith(f"{DEVICE} "))
    return [each.partition("/")[0] for line in found for each in line]
