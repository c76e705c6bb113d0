"""Destinations as texts: `10.96.0.10:53/udp`, `[fd00::1]:80`, `kube-system/kube-dns:dns`."""

import msgspec

from kubeproxy.base.errors import FieldError
from kubeproxy.base.inet import PROTOCOL_BY_NAME, Protocol, parse_address


class Destination(msgspec.Struct, frozen=True):
    """An address, or a Service by [NAMESPACE/]NAME; and a port, by name or number.

    `text` is how it was written. One of `address` and `service` is "". Without a port or a
    protocol (None), all are meant.
    """

    text: str
    address: str
    service: str
    port: str
    protocol: Protocol | None

    @property
    def number(self) -> int:
        """The port, which must be a number."""
        return port_number(self.port, "to", self.text)


def destination(text: str) -> Destination:
    """What a text names, whether it exists or not."""
    where, slash, protocol_name = text.rpartition("/")
    protocol = PROTOCOL_BY_NAME.get(protocol_name.upper()) if slash else None
    if protocol is None:
        where = text
    host, port = split_port(where)
    address = parse_address(host.strip("[]"))
    if address is None:
        return Destination(text, "", host, port, protocol)
    return Destination(text, address, "", port, protocol)


def split_port(where: str) -> tuple[str, str]:
    """`host:port` and `[v6]:port`; an IPv6 address without brackets has no port."""
    if parse_address(where) is not None or where.endswith("]"):
        return where, ""
    host, colon, port = where.rpartition(":")
    return (host, port) if colon else (where, "")


def port_number(port: str, field: str, text: str) -> int:
    """The number that a text is; it is part of the text of a field."""
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise FieldError(field, text, f"{port!r} is not a port number")
    return int(port)
