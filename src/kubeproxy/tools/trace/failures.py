"""Connections that endpoints failed, as the daemon reports them, for a trace."""

from collections import Counter
from collections.abc import Iterator

from kubeproxy.base.inet import PROTOCOL_BY_NAME, pack
from kubeproxy.explain.destination import split_port
from kubeproxy.serve.status.wire import FailedConnections
from kubeproxy.serve.status.words import plural
from kubeproxy.tools.trace.connections import MOST, UNKNOWN, WHAT, Failed, Filter, Index, place_of


def failed_of(known: Index, wanted: Filter, reported: FailedConnections) -> Failed | None:
    """The failure, if it is one of a watched service port, a client and an endpoint wanted."""
    destination, endpoint = packed(reported.destination), packed(reported.endpoint)
    protocol = bytes([PROTOCOL_BY_NAME[reported.protocol]])
    place = place_of(known, (destination[:-2], protocol, destination[-2:]))
    if place is None or not wanted.fits(reported.client, endpoint):
        return None
    watched, frontend = place
    return Failed(watched, frontend, known.endpoints.get(endpoint), reported)


def packed(end: str) -> bytes:
    """`address:port` in network order; nothing for ""."""
    if not end:
        return b""
    host, port = split_port(end)
    return pack(host.strip("[]")) + int(port).to_bytes(2, "big")


def summary(failures: Counter[tuple[str, str]], shown: int) -> Iterator[str]:
    """Lines for people: which endpoints failed, how and how often. None where none did."""
    if not failures:
        return
    yield f"{plural(failures.total(), 'failure')}, {shown:,} shown"
    counts = [(end or UNKNOWN, WHAT.get(why, why), n) for (end, why), n in failures.items()]
    width = max(len(end) for end, _, _ in counts)
    for end, what, number in sorted(counts, key=lambda each: (-each[2], each[:2]))[:MOST]:
        yield f"  {end:{width}}  {number:,}  {what}"
    if len(counts) > MOST:
        yield f"  and {len(counts) - MOST:,} more endpoints"
