"""Reads what frontends and endpoints have counted, with a socket of its own: beside the syncs.

The kernel lists a set without stopping other changes, so a reading may miss what comes or
goes meanwhile. It never waits for a sync, and no sync waits for it.
"""

import errno
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from kubeproxy.dataplane.contract import ConnectionCounts, Count
from kubeproxy.dataplane.nftables import elements, names
from kubeproxy.dataplane.nftables.dump import counts_in, list_in, table_handle
from kubeproxy.dataplane.nftables.expressions import NFPROTO
from kubeproxy.dataplane.nftables.inspect import dump_set, get_each
from kubeproxy.dataplane.nftables.language import Program
from kubeproxy.dataplane.nftables.placed import Placed, lists, served
from kubeproxy.linux.netlink import nftables as nft
from kubeproxy.linux.netlink.attribute import text
from kubeproxy.linux.netlink_socket import Refused, decoding
from kubeproxy.linux.nfnetlink import Nfnetlink
from kubeproxy.table.entries import Entry, Frontend, FrontendKind, ServicePortName

LARGE_SET = 100_000
"""From here on it is quicker to ask for each element: a dump's time grows with the square."""
_ATTEMPTS = 3

Values = dict[bytes, int]


def read(program: Program, placed: Sequence[Placed], *, endpoints: bool) -> ConnectionCounts:
    """The counters of these entries, which are all that are programmed."""
    with Nfnetlink() as kernel, decoding(f"cannot read the counters of {program.table}"):
        for _ in range(_ATTEMPTS):
            epoch = _epoch(kernel, program)
            values = _values(kernel, program, placed, endpoints=endpoints)
            if _epoch(kernel, program) == epoch:
                break  # else the table was made again: half of these are of the old one
    return ConnectionCounts(epoch, _counts(placed, values, endpoints=endpoints))


def _epoch(kernel: Nfnetlink, program: Program) -> int:
    of_table = text(nft.NFTA_TABLE_NAME, program.table)
    return table_handle(kernel.get(nft.NFT_MSG_GETTABLE, NFPROTO[program.family], of_table))


def _counts(
    placed: Sequence[Placed], values: dict[str, Values], *, endpoints: bool
) -> Iterator[tuple[ServicePortName, list[Count]]]:
    for each in placed:
        keys = _frontends(each.entry)
        counts = [Count(f, key, values[_connections(f)].get(key)) for key, f in keys.items()]
        if endpoints:
            counts += _endpoint_counts(each, values)
        yield each.entry.name, counts


def _frontends(entry: Entry) -> dict[bytes, Frontend]:
    """The frontends that count, by the keys of their elements."""
    protocol = entry.protocol
    found = {elements.frontend_key(each, protocol): each for each in entry.frontends}
    if len(found) == len(entry.frontends):
        return found
    return {elements.frontend_key(each, protocol): each for each in served(entry)}


def _connections(frontend: Frontend) -> str:
    """The set with the counter of a frontend."""
    node_port = frontend.kind is FrontendKind.NODE_PORT
    return names.NODEPORT_CONNECTIONS if node_port else names.SERVICE_CONNECTIONS


def _list(frontend: Frontend, *, local: bool) -> str:
    """The map with the endpoints of a frontend."""
    return names.LISTS[frontend.kind is FrontendKind.NODE_PORT, local]


def _endpoint_counts(placed: Placed, values: dict[str, Values]) -> Iterator[Count]:
    """A counter belongs to a place, and to the endpoint that has the place."""
    for (frontend, local), slots in lists(placed).items():
        key = elements.frontend_key(frontend, placed.entry.protocol)
        counted = values[_list(frontend, local=local)]
        for index, backend in enumerate(slots):
            counter = key + elements.slot_bytes(index) + elements.backend_data(backend)
            yield Count(backend, (local, counter), counted.get(counter))


def _values(
    kernel: Nfnetlink, program: Program, placed: Sequence[Placed], *, endpoints: bool
) -> dict[str, Values]:
    """What the elements of each set have counted, by their keys and data."""
    count = sum(len(each.entry.frontends) for each in placed)
    found: dict[str, Values] = {}
    for name in (names.SERVICE_CONNECTIONS, names.NODEPORT_CONNECTIONS):
        counted = (
            elements.head(key)
            for each in placed
            for key, frontend in _frontends(each.entry).items()
            if _connections(frontend) == name
        )
        found[name] = _read_set(kernel, program, name, count, counted)
    heads: dict[str, list[bytes]] = defaultdict(list)
    for each in placed if endpoints else ():
        for (frontend, local), slots in lists(each).items():
            key = elements.frontend_key(frontend, each.entry.protocol)
            heads[_list(frontend, local=local)] += elements.list_heads(key, len(slots))
    for name, known in heads.items():
        found[name] = _read_set(kernel, program, name, len(known), known)
    return found


def _read_set(
    kernel: Nfnetlink, program: Program, name: str, count: int, heads: Iterable[bytes]
) -> Values:
    """The counts of a set: by its keys if it is large, or if a dump finds no quiet moment."""
    found: Values = {}
    if count < LARGE_SET:
        try:
            for message in dump_set(kernel, program, name):
                found |= counts_in(list_in(message))
        except Refused as error:
            if error.errno != errno.EINTR:
                raise
        else:
            return found
    # Where an element is gone, those that were requested with it are left out this time.
    for asked, answers in get_each(kernel, program, name, [*heads], strict=False):
        element_at = answers[0].index(asked[0]) - 4
        found |= counts_in(b"".join(answer[element_at:] for answer in answers))
    return found
