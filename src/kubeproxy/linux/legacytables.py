"""The chains of iptables-legacy, from the kernel: its programs may not be installed.

Needs CAP_NET_ADMIN. Tables that do not exist are not read: that would make them.
"""

import ctypes
import errno
import os
import re
import socket
import struct
from pathlib import Path
from typing import Final

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family

_KINDS: Final = {
    Family.IPV4: (Path("/proc/net/ip_tables_names"), socket.AF_INET, socket.IPPROTO_IP),
    Family.IPV6: (Path("/proc/net/ip6_tables_names"), socket.AF_INET6, socket.IPPROTO_IPV6),
}
_GET_INFO, _GET_ENTRIES = 64, 65  # of both families
_INFO = struct.Struct("=32s13I")  # name, hooks, ten offsets, number and size of the entries
_REQUEST = struct.Struct("=32sI4x")  # name and size; the entries follow
# A chain begins with an entry whose target is ERROR, revision 0, with the name of the chain.
_CHAIN = re.compile(rb"ERROR\0{25}([^\0]{1,29})\0")
_END = b"ERROR"  # the last entry of a table has this name
_ATTEMPTS = 5

_libc = ctypes.CDLL(None, use_errno=True)


def legacy_chains(family: Family) -> tuple[tuple[str, str], ...]:
    """Table and name of all chains that are not built in."""
    names, kind, level = _KINDS[family]
    try:
        tables = names.read_text().split()
    except FileNotFoundError:
        return ()  # this kernel does not have that kind, or has not loaded it
    except OSError as error:
        raise KernelError(f"cannot read {names}: {error.strerror}") from error
    with socket.socket(kind, socket.SOCK_DGRAM) as link:
        found = {table: _entries(link.fileno(), level, table) for table in tables}
    return tuple(
        (table, name.decode(errors="replace"))
        for table, entries in found.items()
        for name in _CHAIN.findall(entries)
        if name != _END
    )


def _entries(descriptor: int, level: int, table: str) -> bytes:
    """The entries of a table, as the kernel has them."""
    name = table.encode()
    what = f"cannot read the iptables-legacy table {table}"
    for _ in range(_ATTEMPTS):
        try:
            info = _get(descriptor, level, _GET_INFO, _INFO.pack(name, *[0] * 13))
            *_, size = _INFO.unpack(info)
            return _get(descriptor, level, _GET_ENTRIES, _REQUEST.pack(name, size) + bytes(size))
        except OSError as error:
            if error.errno != errno.EAGAIN:  # the table has another size by now
                raise KernelError(f"{what}: {error.strerror}") from error
    raise KernelError(f"{what}: it changes all the time")


def _get(descriptor: int, level: int, option: int, request: bytes) -> bytes:
    """Call getsockopt with a request, which Python's cannot; the answer has the same size."""
    answer = ctypes.create_string_buffer(request, len(request))
    size = ctypes.c_uint32(len(request))
    if _libc.getsockopt(descriptor, level, option, answer, ctypes.byref(size)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer.raw
