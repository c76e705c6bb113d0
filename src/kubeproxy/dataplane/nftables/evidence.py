"""What packets have left behind in the sets of healing -> the failures since the last reading.

The rules notify when there is something new; then the sets are read until they rest. That costs
nothing while nothing fails.
"""

import asyncio
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from kubeproxy.base import klog
from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family, Protocol, unpack
from kubeproxy.dataplane.failures import UNKNOWN, Endpoint, Failure, Reason
from kubeproxy.dataplane.nftables import names
from kubeproxy.dataplane.nftables.dump import counts_in, list_in, read_elements
from kubeproxy.dataplane.nftables.elements import head, key_in
from kubeproxy.dataplane.nftables.healing import GROUPS
from kubeproxy.dataplane.nftables.inspect import dump_set, get_each
from kubeproxy.dataplane.nftables.language import Program
from kubeproxy.linux.conntrack import forget
from kubeproxy.linux.netlink import nftables as nft
from kubeproxy.linux.netlink.conntrack import TcpConnection
from kubeproxy.linux.netlink.message import Message, attributes, decode
from kubeproxy.linux.netlink_socket import decoding
from kubeproxy.linux.nflog import LogGroup
from kubeproxy.linux.nfnetlink import Nfnetlink
from kubeproxy.table.entries import FrontendKey

Counts = dict[bytes, int]
Notify = Callable[[Sequence[Failure]], None]

_PAUSE = 0.05
_RESTING = 20
"""So many readings without anything new end a series of them."""
_RETRY_SECONDS = 30.0


class Evidence:
    """The failures of one family. `current` is the program in the kernel; None while unknown."""

    def __init__(self, family: Family, current: Callable[[], Program | None]) -> None:
        self._family = family
        self._current = current
        self._refused: Counts = {}
        self._unanswered: Counts = {}
        self._reset: frozenset[bytes] = frozenset()
        self._begun = asyncio.Event()

    def begin(self) -> None:
        """There are rules now that notify."""
        self._begun.set()

    async def follow(self, notify: Notify) -> None:
        """Call `notify` with what fails, until cancelled."""
        await self._begun.wait()
        while True:
            try:
                with LogGroup(GROUPS[self._family]) as group:
                    while True:
                        await group.wait()
                        await self._read_until_rest(notify)
            except KernelError as error:
                message = "Failing endpoints are not noticed: they are retried, but not left out"
                klog.error(message, err=error, ipFamily=self._family.value)
            except Exception as error:  # noqa: BLE001  # a bug must not end the daemon
                klog.error(
                    "Failing endpoints are not noticed for a while; please report this",
                    err=error,
                    ipFamily=self._family.value,
                    stack=traceback.format_exc(),
                )
            await asyncio.sleep(_RETRY_SECONDS)

    async def _read_until_rest(self, notify: Notify) -> None:
        resting = 0
        while resting < _RESTING:
            program = self._current()
            found: list[Failure] = []
            if program is not None and program.timeouts:
                found = await asyncio.to_thread(self.read, program)
            resting = 0 if found else resting + 1
            if found:
                notify(found)
            await asyncio.sleep(_PAUSE)

    def read(self, program: Program) -> list[Failure]:
        """What is new since the last reading; call it in a thread."""
        with Nfnetlink() as kernel, decoding("cannot read which endpoints fail"):
            refused = _counts(kernel, program, names.REFUSED)
            unanswered = _counts(kernel, program, names.UNANSWERED)
            resets = read_elements(dump_set(kernel, program, names.RESETS))
            fresh = _new(refused, self._refused)
            found = [self._refusal(key, count) for key, count in fresh.items()]
            silent = _new(unanswered, self._unanswered)
            attempts = _attempts(kernel, program, silent)
            found += [self._silence(key, count, attempts) for key, count in silent.items()]
        ends = {at: tail for at, tail in resets.items() if at not in self._reset}
        found += [self._end(key_in(at), tail) for at, tail in ends.items()]
        # The kernel would send a later connection from the same port where this one went.
        forget(self._family, (self._connection(key_in(at)) for at in ends))
        self._refused, self._unanswered = refused, unanswered
        self._reset = frozenset(resets)
        return found

    # Keys are laid out as `healing.Keys` says: each field fills words of 32 bits.

    @property
    def _size(self) -> int:
        return self._family.bits // 8

    def _refusal(self, key: bytes, count: int) -> Failure:
        size = self._size
        client, destination, endpoint = key[:size], key[size : 2 * size + 4], key[2 * size + 4 :]
        address, port = _ends(destination)
        frontend = FrontendKey(address, Protocol.TCP, port)
        return Failure(Reason.REFUSED, unpack(client), frontend, Endpoint(*_ends(endpoint)), count)

    def _silence(self, key: bytes, count: int, attempts: Mapping[bytes, bytes]) -> Failure:
        client, frontend = self._of_connection(key)
        tail = attempts.get(head(key))
        endpoint = UNKNOWN if tail is None else Endpoint(*_ends(_data(tail)))
        return Failure(Reason.UNANSWERED, client, frontend, endpoint, count)

    def _end(self, key: bytes, tail: bytes) -> Failure:
        client, frontend = self._of_connection(key)
        return Failure(Reason.GONE, client, frontend, Endpoint(*_ends(_data(tail))))

    def _of_connection(self, key: bytes) -> tuple[str, FrontendKey]:
        half = self._size + 4
        address, port = _ends(key[half : 2 * half])
        return _ends(key[:half])[0], FrontendKey(address, Protocol.TCP, port)

    def _connection(self, key: bytes) -> TcpConnection:
        half = self._size + 4
        return TcpConnection(key[: half - 2], key[half : 2 * half - 2])


def _ends(data: bytes) -> tuple[str, int]:
    """An address and a port, as keys have them."""
    return unpack(data[:-4]), int.from_bytes(data[-4:-2], "big")


def _data(tail: bytes) -> bytes:
    return attributes(attributes(tail)[nft.NFTA_SET_ELEM_DATA])[nft.NFTA_DATA_VALUE]


def _counts(kernel: Nfnetlink, program: Program, name: str) -> Counts:
    found: Counts = {}
    for message in dump_set(kernel, program, name):
        found |= counts_in(list_in(message))
    return found


def _new(now: Counts, then: Counts) -> Counts:
    """How often since then; an element that timed out has begun again."""
    return {
        key: count - (then.get(key, 0) if then.get(key, 0) <= count else 0)
        for key, count in now.items()
        if then.get(key) != count
    }


_FEW = 64


def _attempts(kernel: Nfnetlink, program: Program, keys: Iterable[bytes]) -> dict[bytes, bytes]:
    """Where the first SYN of each connection went, if that is still known."""
    heads = [head(key) for key in keys]
    if len(heads) > _FEW:
        return read_elements(dump_set(kernel, program, names.ATTEMPTS))
    return read_elements(_asked(kernel, program, heads))


def _asked(kernel: Nfnetlink, program: Program, heads: Iterable[bytes]) -> Iterator[Message]:
    """One at a time: those that are gone must not keep others from being found."""
    for at in heads:
        for _, answers in get_each(kernel, program, names.ATTEMPTS, [at], strict=False):
            for answer in answers:
                yield from decode(answer)
