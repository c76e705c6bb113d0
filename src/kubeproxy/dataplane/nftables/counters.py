"""Reads what frontends and endpoints have counted, with a socket of its own: beside the syncs.

The kernel lists a set without stopping those who change it, so a reading may miss what comes or
goes meanwhile. It never waits for a sync, and no sync waits for it.
"""

import errno
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from kubeproxy.dataplane.counts import Count, Reading
from kubeproxy.dataplane.nftables import program as names
from kubeproxy.dataplane.nftables.batch import encoded
from kubeproxy.dataplane.nftables.choices import LISTS
from kubeproxy.dataplane.nftables.dump import counts_in, elements_in, table_handle
from kubeproxy.dataplane.nftables.elements import backend_data, frontend_key, head, index_bytes
from kubeproxy.dataplane.nftables.expressions import NFPROTO
from kubeproxy.dataplane.nftables.language import Program
from kubeproxy.dataplane.nftables.placed import Placed, lists, served
from kubeproxy.linux.netlink import nftables as nft
from kubeproxy.linux.netlink.attribute import text
from kubeproxy.linux.netlink_socket import Refused, decoding
from kubeproxy.linux.nfnetlink import Nfnetlink
from kubeproxy.table.entries import Entry, Frontend, FrontendKind, ServicePortName

LARGE_SET = 100_000
"""From here on it is quicker to ask for each element: a dump's time grows with the square."""
_AT_ONCE = 1000
_ATTEMPTS = 3

Values = dict[bytes, int]


def read(program: Program, placed: Sequence[Placed], *, endpoints: bool) -> Reading:
    """The counters of these entries, which are all that are programmed."""
    with Nfnetlink() as kernel, decoding(f"cannot read the counters of {program.table}"):
        for _ in range(_ATTEMPTS):
            epoch = _epoch(kernel, program)
            values = _frontend_values(kernel, program, placed)
            if endpoints:
                values |= _endpoint_values(kernel, program, placed)
            if _epoch(kernel, program) == epoch:
                break  # else the table was replaced: half of these are of the old one
    return Reading(epoch, _counts(placed, values, endpoints=endpoints))


def _epoch(kernel: Nfnetlink, program: Program) -> int:
    of_table = text(nft.NFTA_TABLE_NAME, program.table)
    return table_handle(kernel.get(nft.NFT_MSG_GETTABLE, NFPROTO[program.family], of_table))


def _counts(
    placed: Sequence[Placed], values: Values, *, endpoints: bool
) -> Iterator[tuple[ServicePortName, list[Count]]]:
    for each in placed:
        keys = _frontends(each.entry)
        counts = [Count(frontend, key, values.get(key)) for key, frontend in keys.items()]
        if endpoints:
            counts += _endpoint_counts(each, values)
        yield each.entry.name, counts


def _frontends(entry: Entry) -> dict[bytes, Frontend]:
    """The frontends that count, by the keys of their elements."""
    protocol = entry.protocol
    found = {frontend_key(frontend, protocol): frontend for frontend in entry.frontends}
    if len(found) == len(entry.frontends):
        return found
    return {frontend_key(frontend, protocol): frontend for frontend in served(entry)}


def _endpoint_counts(placed: Placed, values: Values) -> Iterator[Count]:
    """A counter belongs to a place, and to the endpoint that has the place."""
    for (frontend, local), slots in lists(placed).items():
        key = frontend_key(frontend, placed.entry.protocol)
        for index, backend in enumerate(slots):
            counter = key + index_bytes(index) + backend_data(backend)
            value = values.get(_of_list(counter, local=local))
            yield Count(backend, (local, counter), value)


def _of_list(counter: bytes, *, local: bool) -> bytes:
    """What distinguishes the same place of the two lists of a frontend."""
    return b"local" + counter if local else counter


def _frontend_values(kernel: Nfnetlink, program: Program, placed: Sequence[Placed]) -> Values:
    count = sum(len(each.entry.frontends) for each in placed)
    found: Values = {}
    for name in (names.SERVICE_CONNECTIONS, names.NODEPORT_CONNECTIONS):
        keys = partial(_frontend_keys, placed, node_ports=name == names.NODEPORT_CONNECTIONS)
        found |= _read_set(kernel, program, name, count, keys)
    return found


def _frontend_keys(placed: Sequence[Placed], *, node_ports: bool) -> list[bytes]:
    return [
        key
        for each in placed
        for key, frontend in _frontends(each.entry).items()
        if (frontend.kind is FrontendKind.NODE_PORT) == node_ports
    ]


def _endpoint_values(kernel: Nfnetlink, program: Program, placed: Sequence[Placed]) -> Values:
    keys: dict[tuple[str, bool], list[bytes]] = defaultdict(list)
    for each in placed:
        for (frontend, local), slots in lists(each).items():
            key = frontend_key(frontend, each.entry.protocol)
            places = (key + index_bytes(index) for index in range(len(slots)))
            node_port = frontend.kind is FrontendKind.NODE_PORT
            keys[LISTS[node_port, local], local] += places
    found: Values = {}
    for (name, local), known in keys.items():
        values = _read_set(kernel, program, name, len(known), partial(list, known))
        found |= {_of_list(key, local=local): value for key, value in values.items()}
    return found


def _read_set(
    kernel: Nfnetlink, program: Program, name: str, count: int, keys: Callable[[], list[bytes]]
) -> Values:
    """The counts of a set: by its keys if it is large, or if a dump finds no quiet moment."""
    if count >= LARGE_SET:
        return _get_each(kernel, program, name, keys())
    payload = nft.set_elements(program.table, name)
    try:
        messages = kernel.dump(nft.NFT_MSG_GETSETELEM, NFPROTO[program.family], payload)
    except Refused as error:
        if error.errno != errno.EINTR:
            raise
        return _get_each(kernel, program, name, keys())
    found: Values = {}
    for message in messages:
        found |= counts_in(elements_in(message))
    return found


def _get_each(kernel: Nfnetlink, program: Program, name: str, keys: Sequence[bytes]) -> Values:
    at_once = min(kernel.max_answers, _AT_ONCE)
    found: Values = {}
    for start in range(0, len(keys), at_once):
        heads = [head(key) for key in keys[start : start + at_once]]
        payload = nft.set_elements(program.table, name, *map(encoded, heads))
        try:
            answers = kernel.get_each(nft.NFT_MSG_GETSETELEM, NFPROTO[program.family], payload)
        except Refused as error:
            if error.errno != errno.ENOENT:
                raise
            continue  # one of them is gone: these are left out this time
        element_at = answers[0].index(heads[0]) - 4
        found |= counts_in(b"".join(answer[element_at:] for answer in answers))
    return found
