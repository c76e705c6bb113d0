"""Who owns a connection from this machine: the kernel knows the user of each socket."""

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import parse_address
from kubeproxy.linux.netlink.sockdiag import NETLINK_SOCK_DIAG, socket_request, user_in
from kubeproxy.linux.netlink_socket import Link, decoding

Address = tuple[str, int]


def socket_user(own: Address, other: Address) -> int | None:
    """The user whose TCP socket has these two ends; None when it is not on this machine.

    None as well where that cannot be found out, so that no user is taken for another.
    """
    what = "cannot read the owner of a socket"
    try:
        with Link(NETLINK_SOCK_DIAG) as link, decoding(what):
            return user_in(*link.request(socket_request(_end(own), _end(other)), what))
    except KernelError:
        return None


def _end(end: Address) -> Address:
    """Address and port; an IPv4 client of a socket for both families has an IPv4 socket."""
    address, port = end
    return parse_address(address) or address, port
