"""From a virtual server that is to the one that is wanted."""

import pytest

from kubeproxy.base.inet import Protocol
from kubeproxy.dataplane.ipvs.drain import Drain, Look, look
from kubeproxy.dataplane.ipvs.plan import Server
from kubeproxy.dataplane.ipvs.steps import Found, Steps, as_written, steps
from kubeproxy.linux.netlink.ipvs import (
    AddReal,
    AddServer,
    DeleteReal,
    RealKey,
    RealServer,
    ServerKey,
    SetReal,
    SetServer,
    VirtualServer,
)

TCP = ServerKey(Protocol.TCP, "10.112.0.21", 80)
UDP = ServerKey(Protocol.UDP, "10.112.0.21", 53)
SCTP = ServerKey(Protocol.SCTP, "10.112.0.21", 80)
A, B, C = (RealKey(f"10.64.3.1{number}", 8080) for number in range(3))
RR, SH = VirtualServer("rr"), VirtualServer("sh")
NOBODY: frozenset[RealKey] = frozenset()


@pytest.mark.parametrize(
    ("key", "wanted", "found", "draining", "expected"),
    [
        pytest.param(
            TCP,
            Server(RR, (A, B)),
            None,
            NOBODY,
            Steps((AddServer(TCP, RR), AddReal(TCP, A), AddReal(TCP, B))),
            id="new",
        ),
        pytest.param(TCP, Server(RR, (A,)), Found(RR, {A: 1}), NOBODY, Steps(), id="as-it-is"),
        pytest.param(
            TCP,
            Server(SH, (A,)),
            Found(RR, {A: 1}),
            NOBODY,
            Steps((SetServer(TCP, SH),)),
            id="another-scheduler",
        ),
        pytest.param(
            TCP,
            Server(RR, (A, B)),
            Found(RR, {A: 1}),
            NOBODY,
            Steps((AddReal(TCP, B),)),
            id="one-more",
        ),
        pytest.param(
            TCP,
            Server(RR, (A,)),
            Found(RR, {A: 1, B: 1}),
            NOBODY,
            Steps((SetReal(TCP, B, 0),), (B,)),
            id="tcp-leaves-gracefully",
        ),
        pytest.param(
            TCP,
            Server(RR, (A,)),
            Found(RR, {A: 1, B: 0}),
            NOBODY,
            Steps((), (B,)),
            id="left-by-a-process-that-ended",
        ),
        pytest.param(
            UDP,
            Server(RR, (A,)),
            Found(RR, {A: 1, B: 1}),
            NOBODY,
            Steps((DeleteReal(UDP, B),)),
            id="udp-leaves-at-once",
        ),
        pytest.param(
            SCTP,
            Server(RR),
            Found(RR, {B: 0}),
            NOBODY,
            Steps((DeleteReal(SCTP, B),)),
            id="sctp-too",
        ),
        pytest.param(
            TCP,
            Server(RR, (A,)),
            Found(RR, {A: 1, B: 0}),
            frozenset({B}),
            Steps((), (), frozenset({B})),
            id="drains-on",
        ),
        pytest.param(
            TCP,
            Server(RR, (A, B)),
            Found(RR, {A: 1, B: 0}),
            frozenset({B}),
            Steps((SetReal(TCP, B, 1),)),
            id="comes-back-while-draining",
        ),
        pytest.param(
            TCP,
            Server(RR, (A, B)),
            Found(RR, {A: 1}),
            frozenset({B}),
            Steps((AddReal(TCP, B),)),
            id="comes-back-after-somebody-removed-it",
        ),
        pytest.param(
            TCP, Server(RR, (A,)), Found(RR, {A: 7}), NOBODY, Steps(), id="weights-of-others-stay"
        ),
    ],
)
def test_steps(
    key: ServerKey,
    wanted: Server,
    found: Found | None,
    draining: frozenset[RealKey],
    expected: Steps,
) -> None:
    assert expected == steps(key, wanted, found, draining)
    assert bool(expected.commands or expected.leaving) == bool(expected)


def test_the_first_sync_resets_weights() -> None:
    found = Found(RR, {A: 0, B: 7})
    actual = steps(TCP, Server(RR, (A, B)), found, NOBODY, resets=True)
    assert Steps((SetReal(TCP, A, 1), SetReal(TCP, B, 1))) == actual


def test_what_was_written() -> None:
    assert Found(RR, {A: 1, B: 0}) == as_written(Server(RR, (A,)), {B})


def test_a_look_parts_those_with_connections_from_those_without() -> None:
    found = {A: RealServer(0, 1, 0), B: RealServer(0, 0, 0), C: RealServer(0, 0, 3)}
    gone = RealKey("10.64.3.99", 80)
    assert Look((DeleteReal(TCP, B),), (A, C)) == look(TCP, (A, B, C, gone), found)


def test_the_list() -> None:
    drain = Drain()
    assert drain.waiting(TCP) == NOBODY
    drain.put(TCP, [A, B])
    assert frozenset({A, B}) == drain.waiting(TCP)
    assert drain.servers() == (TCP,)
    drain.put(TCP, ())
    assert drain.servers() == ()
    drain.put(TCP, ())
