"""How the kernel tracks connections that were shown, in words."""

from collections.abc import Iterable, Iterator, Mapping

from kubeproxy.base.inet import Protocol
from kubeproxy.linux.netlink import conntrack as ct
from kubeproxy.tools.trace.connections import shown_end

_WORDS: Mapping[int, str] = {
    ct.IPS_SEEN_REPLY: "answered",
    ct.IPS_ASSURED: "assured",
    ct.IPS_SRC_NAT: "source translated",
    ct.IPS_DST_NAT: "destination translated",
    ct.IPS_DYING: "being deleted",
    ct.IPS_HELPER: "has a helper",
    ct.IPS_OFFLOAD: "on the fast path",
}
NOT_TRACKED = "not tracked any more"


def words(status: int | None) -> str:
    """The status of an entry, or that there is none."""
    if status is None:
        return NOT_TRACKED
    return ", ".join(word for bit, word in _WORDS.items() if status & bit) or "new"


def lines(found: Iterable[tuple[ct.Connection, int | None]]) -> Iterator[str]:
    """A line for each connection, with its status."""
    for connection, status in found:
        protocol = Protocol(connection.protocol).name
        ends = f"{shown_end(connection.client)} to {shown_end(connection.destination)}"
        yield f"  {protocol} {ends}: {words(status)}"
