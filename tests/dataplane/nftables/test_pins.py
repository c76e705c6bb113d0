"""Clients that are pinned to an endpoint, in a kernel that is filled, and those that they lose."""

import asyncio
import errno
from collections.abc import Iterable, Mapping, Sequence

import pytest

from dataplane.nftables.programming import Rig, filled
from fakes.nftables import FakeNftables
from kubeproxy.base.inet import Family, pack
from kubeproxy.dataplane.nftables import pins
from kubeproxy.dataplane.nftables.elements import head, pin_bytes, tail
from kubeproxy.dataplane.nftables.guard import TableGuard
from kubeproxy.dataplane.nftables.names import (
    AFFINITY,
    LOCAL_AFFINITY,
    SHARED_AFFINITY,
    SHARED_LOCAL_AFFINITY,
)
from kubeproxy.dataplane.nftables.pins import Pins, stale_pins
from kubeproxy.dataplane.nftables.state import step
from kubeproxy.linux.netlink_socket import Refused
from kubeproxy.table.diff import Changes, diff
from kubeproxy.table.entries import Backend, Table
from world import Mode, endpoint_slice, everywhere, node, table_of

L1, L2 = Backend("10.64.3.11", 8080, local=True), Backend("10.64.3.12", 8080, local=True)
R1 = Backend("10.65.7.21", 8080)
CLIENTS = ("192.0.2.50", "192.0.2.200", "10.64.3.50")


def pin(client: str, number: int) -> bytes:
    return head(number.to_bytes(4, "little") + pack(client))


def to(backend: Backend) -> bytes:
    return tail(pin_bytes(backend))


SPEC = {"sessionAffinity": "ClientIP", "externalTrafficPolicy": "Local"}
STICKY = everywhere(SPEC)


@pytest.fixture
def rig() -> Rig:
    """A service with the endpoints L1, L2 and R1, of which it is the first that is numbered."""
    return filled(table_of(STICKY, endpoint_slice("L1 L2 R1")), node(Mode.NFTABLES))


def pinned(rig: Rig, found: Iterable[tuple[str, bytes, Backend]]) -> None:
    for name, key, backend in found:
        rig.table.sets[name].elements[key] = to(backend)


def held(rig: Rig, name: str) -> set[bytes]:
    return set(rig.table.sets[name].elements)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        pytest.param(1, False, id="of-a-service-that-is-there"),
        pytest.param(2, True, id="of-one-that-is-gone"),
        pytest.param(0, True, id="of-none"),
    ],
)
def test_stale_pins(rig: Rig, number: int, expected: bool) -> None:
    key = pin(CLIENTS[0], number)
    assert ([key] if expected else []) == stale_pins([key], rig.state.placed.values())


@pytest.mark.parametrize(
    ("endpoints", "spec", "expected"),
    [
        pytest.param("L1 L2 R1", {"externalIPs": ["198.18.0.5"]}, False, id="another-address"),
        pytest.param("L1 L2 L3 R1", {}, False, id="an-endpoint-comes"),
        pytest.param("L1 L2", {}, False, id="an-endpoint-leaves"),
        pytest.param("L1 L2 R1", {"sessionAffinity": "None"}, True, id="affinity-is-turned-off"),
    ],
)
def test_what_leaves_pins_behind(
    rig: Rig, endpoints: str, spec: Mapping[str, object], expected: bool
) -> None:
    (placed,) = rig.state.placed.values()
    table = table_of(everywhere({**SPEC, **spec}), endpoint_slice(endpoints))
    done = step(rig.state, [placed.entry], table.entries.values(), rig.node)
    assert expected == done.lost_numbers


def test_services_without_affinity_have_no_pins() -> None:
    rig = filled(table_of(everywhere(), endpoint_slice("L1")), node(Mode.NFTABLES))
    keys = [pin(CLIENTS[0], number) for number in (0, 1)]
    assert keys == stale_pins(keys, rig.state.placed.values())


def forget(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, socket: FakeNftables | None = None
) -> FakeNftables:
    """Forget them; the socket that was used for it."""
    used = socket or FakeNftables(rig.kernel.ruleset)
    monkeypatch.setattr(pins, "Nfnetlink", lambda: used)
    keeper = Pins(TableGuard(), lambda: rig.state)
    keeper.forget()
    try:
        asyncio.run(keeper.settle())
    finally:
        keeper.close()
    return used


def test_a_pin_to_an_endpoint_that_left_is_the_business_of_packets(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client may have connected since it was read, and have another pin under that key."""
    first, second = (pin(client, 1) for client in CLIENTS[:2])
    pinned(rig, [(AFFINITY, first, L1), (LOCAL_AFFINITY, second, L2)])
    rig.change(changes_to("L1 R1"))
    assert forget(rig, monkeypatch).commits == []
    assert (held(rig, AFFINITY), held(rig, LOCAL_AFFINITY)) == ({first}, {second})


def changes_to(endpoints: str) -> Changes:
    before = table_of(STICKY, endpoint_slice("L1 L2 R1"))
    return diff(before, table_of(STICKY, endpoint_slice(endpoints)))


def test_pins_of_a_service_that_is_gone_are_forgotten(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned(rig, [(AFFINITY, pin(CLIENTS[0], 1), L1), (LOCAL_AFFINITY, pin(CLIENTS[1], 1), L1)])
    rig.change(diff(table_of(STICKY, endpoint_slice("L1 L2 R1")), Table(Family.IPV4)))
    forget(rig, monkeypatch)
    assert held(rig, AFFINITY) | held(rig, LOCAL_AFFINITY) == set()


def test_many_pins_are_forgotten_in_few_transactions(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = [f"10.0.{number // 256}.{number % 256}" for number in range(2500)]
    pinned(rig, ((AFFINITY, pin(client, 9), L1) for client in clients))
    assert len(forget(rig, monkeypatch).commits) <= 3
    assert held(rig, AFFINITY) == set()


class Forgetful(FakeNftables):
    """A kernel in which pins time out between being listed and being deleted."""

    def __init__(self, rig: Rig, *timed_out: bytes) -> None:
        super().__init__(rig.kernel.ruleset)
        self._rig = rig
        self._timed_out = timed_out

    def commit(self, messages: Sequence[bytes], generation: int | None = None) -> None:
        for each in self._timed_out:
            self._rig.table.sets[AFFINITY].elements.pop(each, None)
        super().commit(messages, generation)


@pytest.mark.parametrize("gone", [1, 2, 3])
def test_a_pin_that_times_out_meanwhile_does_not_save_the_others(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, gone: int
) -> None:
    keys = [pin(client, 9) for client in CLIENTS]
    pinned(rig, ((AFFINITY, key, L1) for key in keys))
    forget(rig, monkeypatch, Forgetful(rig, *keys[:gone]))
    assert held(rig, AFFINITY) == set()


def test_any_other_refusal_is_raised(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned(rig, [(AFFINITY, pin(CLIENTS[0], 9), L1)])
    socket = FakeNftables(rig.kernel.ruleset)
    socket.broken = errno.EPERM
    with pytest.raises(Refused, match="Operation not permitted"):
        forget(rig, monkeypatch, socket)
    assert socket.closed


def test_pins_of_shared_places_go_as_others_do(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = (head(bytes([9, 0, 0, 0, place, 0, 0, 0])) for place in (3, 4))
    pinned(rig, [(SHARED_AFFINITY, here, L2), (SHARED_LOCAL_AFFINITY, there, L2)])
    forget(rig, monkeypatch)
    assert held(rig, SHARED_AFFINITY) | held(rig, SHARED_LOCAL_AFFINITY) == set()


class Stubborn(FakeNftables):
    """A kernel in which a packet on its way writes a pin again that was just deleted."""

    def __init__(self, rig: Rig, again: bytes) -> None:
        super().__init__(rig.kernel.ruleset)
        self._rig = rig
        self._again = [again]

    def commit(self, messages: Sequence[bytes], generation: int | None = None) -> None:
        super().commit(messages, generation)
        if self._again:
            pinned(self._rig, [(AFFINITY, self._again.pop(), L2)])


def test_a_pin_that_a_packet_writes_again_is_forgotten_too(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a shared place, whose client gets a pin of its own as soon as there is room."""
    pinned(rig, [(AFFINITY, pin(CLIENTS[0], 9), L2), (AFFINITY, pin(CLIENTS[1], 1), L1)])
    forget(rig, monkeypatch, Stubborn(rig, pin(CLIENTS[2], 9)))
    assert held(rig, AFFINITY) == {pin(CLIENTS[1], 1)}


def test_nothing_is_read_when_no_service_left(rig: Rig) -> None:
    asyncio.run(Pins(TableGuard(), lambda: rig.state).settle())  # it would open a socket


@pytest.mark.parametrize("known", [0, 1], ids=["before", "while-pins-are-read"])
def test_once_a_full_sync_has_begun_nothing_is_deleted(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, known: int
) -> None:
    pinned(rig, [(AFFINITY, pin(CLIENTS[0], 9), L1)])
    socket = FakeNftables(rig.kernel.ruleset)
    monkeypatch.setattr(pins, "Nfnetlink", lambda: socket)
    states = iter([rig.state] * known)
    keeper = Pins(TableGuard(), lambda: next(states, None))
    keeper.forget()
    asyncio.run(keeper.settle())
    assert socket.commits == []


async def _until_retried(keeper: Pins, socket: FakeNftables) -> None:
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(keeper.run())
        keeper.forget()
        while not socket.commits:
            await asyncio.sleep(0.001)
            socket.broken = 0
        running.cancel()


def test_what_is_refused_is_tried_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned(rig, [(AFFINITY, pin(CLIENTS[0], 9), L1)])
    socket = FakeNftables(rig.kernel.ruleset)
    socket.broken = errno.EPERM
    monkeypatch.setattr(pins, "Nfnetlink", lambda: socket)
    monkeypatch.setattr(pins, "RETRY_SECONDS", 0)
    asyncio.run(_until_retried(Pins(TableGuard(), lambda: rig.state), socket))
    assert held(rig, AFFINITY) == set()
    assert socket.closed
