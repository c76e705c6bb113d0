"""Which endpoint a client has: pins are made by packets, and forgotten when an endpoint leaves."""

from collections.abc import Iterable, Mapping
from struct import Struct

from kubeproxy.dataplane.nftables import program as names
from kubeproxy.dataplane.nftables.batch import element_messages, encoded
from kubeproxy.dataplane.nftables.dump import read_elements
from kubeproxy.dataplane.nftables.elements import Placed, backend_data
from kubeproxy.dataplane.nftables.expressions import NFPROTO
from kubeproxy.dataplane.nftables.language import Program
from kubeproxy.kernel.nfnetlink import Nfnetlink, Refused
from kubeproxy.netlink.attribute import text
from kubeproxy.netlink.nfnetlink import NFT_MSG_GETSETELEM
from kubeproxy.table.entries import Backend

_NUMBER = Struct("=I")
_DATA_AT = 8
_ENOENT = 2


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


def forget_stale_pins(program: Program, placed: Iterable[Placed]) -> None:
    """Delete the pins that lead nowhere; on a socket of its own, so that a thread may do it."""
    known = [each for each in placed if each.number]
    family = NFPROTO[program.family]
    with Nfnetlink() as kernel:
        for name, local in ((names.AFFINITY, False), (names.LOCAL_AFFINITY, True)):
            of_map = text(1, program.table) + text(2, name)
            pins = read_elements(kernel.dump(NFT_MSG_GETSETELEM, family, of_map))
            for head in stale_pins(pins, valid_data(known, local=local)):
                _delete(kernel, program, name, head)


def _delete(kernel: Nfnetlink, program: Program, name: str, head: bytes) -> None:
    try:
        kernel.commit(element_messages(program, name, [encoded(head)], delete=True))
    except Refused as error:
        if error.errno != _ENOENT:  # it timed out meanwhile
            raise
