"""Which endpoint a client has: pins are made by packets, and forgotten when an endpoint leaves."""

from collections.abc import Iterable, Mapping, Sequence
from struct import Struct

from kubeproxy.dataplane.nftables import program as names
from kubeproxy.dataplane.nftables.batch import element_messages, encoded
from kubeproxy.dataplane.nftables.dump import read_elements
from kubeproxy.dataplane.nftables.elements import backend_data
from kubeproxy.dataplane.nftables.expressions import NFPROTO
from kubeproxy.dataplane.nftables.language import Program
from kubeproxy.dataplane.nftables.placed import Placed
from kubeproxy.kernel.nfnetlink import Nfnetlink, Refused
from kubeproxy.kernel.understood import understood
from kubeproxy.netlink.attribute import text
from kubeproxy.netlink.nfnetlink import NFT_MSG_GETSETELEM
from kubeproxy.table.entries import Backend

_NUMBER = Struct("=I")
_DATA_AT = 8
_ENOENT = 2
_AT_ONCE = 1000


def stale_pins(pins: Mapping[bytes, bytes], valid: Mapping[int, frozenset[bytes]]) -> list[bytes]:
    """The heads of pins to an endpoint that their service does not choose any more."""
    nobody: frozenset[bytes] = frozenset()
    return [
        head
        for head, tail in pins.items()
        if tail[_DATA_AT:] not in valid.get(_NUMBER.unpack(head[-4:])[0], nobody)
    ]


def valid_data(placed: Iterable[Placed], *, local: bool) -> dict[int, frozenset[bytes]]:
    """For each service that keeps its clients, where a pin may lead."""

    def backends(each: Placed) -> tuple[Backend, ...]:
        return each.local if local else each.cluster

    return {
        each.number: frozenset(map(backend_data, backends(each))) for each in placed if each.number
    }


def forget_stale_pins(program: Program, placed: Iterable[Placed]) -> int:
    """Delete the pins that lead nowhere; how many transactions it took.

    It has a socket of its own, so that a thread may do it.
    """
    commits = 0
    known = [each for each in placed if each.number]
    family = NFPROTO[program.family]
    with Nfnetlink() as kernel:
        for name, local in ((names.AFFINITY, False), (names.LOCAL_AFFINITY, True)):
            of_map = text(1, program.table) + text(2, name)
            with understood(f"cannot read the pins of clients in {name}"):
                pins = read_elements(kernel.dump(NFT_MSG_GETSETELEM, family, of_map))
                heads = stale_pins(pins, valid_data(known, local=local))
            for start in range(0, len(heads), _AT_ONCE):
                commits += _delete(kernel, program, name, heads[start : start + _AT_ONCE])
    return commits


def _delete(kernel: Nfnetlink, program: Program, name: str, heads: Sequence[bytes]) -> int:
    """Delete pins, each with a message of its own: the kernel says which are gone already."""
    messages = [
        message
        for head in heads
        for message in element_messages(program, name, [encoded(head)], delete=True)
    ]
    while messages:
        try:
            kernel.commit(messages)
        except Refused as error:
            if any(each.errno != _ENOENT or each.index < 0 for each in error.errors):
                raise
            timed_out = {each.index for each in error.errors}
            messages = [each for at, each in enumerate(messages) if at not in timed_out]
        else:
            return 1
    return 0
