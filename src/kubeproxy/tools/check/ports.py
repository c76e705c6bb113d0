"""The kernel's list of sockets -> whether the proxy's ports are free."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from kubeproxy.base.inet import parse_address, unpack
from kubeproxy.config.errors import ValueTextError
from kubeproxy.config.values import split_host_port
from kubeproxy.dataplane.preflight import PORTS, Finding, Grade, lacking, ok

_LISTENING = "0A"
_ANY = frozenset({"0.0.0.0", "::"})  # noqa: S104  # compared, not bound
_OURS = "kube-proxy"


class ListeningSocket(msgspec.Struct, frozen=True):
    """A TCP socket that listens; the inode is how its process is found."""

    address: str
    port: int
    inode: int


class WantedPort(msgspec.Struct, frozen=True):
    """A port of the configuration: what it is for, where, and the field that says so.

    `vital` says that the proxy ends where it cannot have it.
    """

    purpose: str
    where: str
    field: str
    vital: bool = False


def listeners_in(listing: str) -> Iterator[ListeningSocket]:
    """The sockets of /proc/net/tcp or tcp6 that listen."""
    for line in listing.splitlines()[1:]:
        words = line.split()
        if len(words) > 9 and words[3] == _LISTENING:
            address, _, port = words[1].partition(":")
            yield ListeningSocket(_address(address), int(port, 16), int(words[9]))


def _address(digits: str) -> str:
    """An address as the kernel prints it: 32-bit words, each in the machine's byte order."""
    words = [digits[at : at + 8] for at in range(0, len(digits), 8)]
    return unpack(b"".join(bytes.fromhex(word)[::-1] for word in words))


def holder(wanted: WantedPort, listeners: Iterable[ListeningSocket]) -> ListeningSocket | None:
    """The socket that has the port already."""
    try:
        host, port = split_host_port(wanted.where)
    except ValueTextError:
        return None
    address = parse_address(host)
    for listener in listeners:
        same = address == listener.address or {address, listener.address} & _ANY
        if same and port == str(listener.port):
            return listener
    return None


def port_finding(
    wanted: WantedPort, held: ListeningSocket | None, owners: Mapping[int, str]
) -> Finding:
    """Whether the proxy can serve there; `owners` are processes by the inodes of their sockets."""
    what = f"{wanted.purpose} {wanted.where}"
    if held is None:
        return ok(PORTS, what, "free")
    owner = owners.get(held.inode, "")
    if _OURS in owner:
        detail = f"taken by {owner}: two proxies would undo each other's work"
        remedy = "stop that one first: its rules stay in force until the new one takes over"
        return lacking(PORTS, what, detail, remedy, Grade.WARNING)
    without = "the proxy ends without it" if wanted.vital else "the proxy goes on without it"
    detail = f"taken by {owner or 'a process that cannot be seen from here'}; {without}"
    remedy = f"stop it, or choose another port with {wanted.field}"
    return lacking(PORTS, what, detail, remedy, Grade.MISSING if wanted.vital else Grade.WARNING)
