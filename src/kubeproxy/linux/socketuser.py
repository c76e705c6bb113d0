"""Whose a connection from this machine is: the kernel knows the user of each socket."""

from kubeproxy.base.inet import parse_address
from kubeproxy.linux.netlink.sockdiag import socket_request, user_in
from kubeproxy.linux.netlink_socket import ask, open_netlink

Address = tuple[str, int]

_NETLINK_SOCK_DIAG = 4


def socket_user(own: Address, other: Address) -> int | None:
    """The user whose TCP socket has these two ends; None when it is not on this machine.

    None as well where the kernel cannot tell, so that nobody is taken for somebody else.
    """
    try:
        with open_netlink(_NETLINK_SOCK_DIAG) as link:
            (answer,) = ask(link, socket_request(_end(own), _end(other)))
    except OSError:
        return None
    return user_in(answer)


def _end(end: Address) -> Address:
    """Address and port; an IPv4 client of a socket for both families has an IPv4 socket."""
    address, port = end
    return parse_address(address) or address, port
