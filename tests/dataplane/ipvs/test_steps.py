"""From a virtual server that is to the one that is wanted."""

import pytest

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.ipvs.plan import Server
from kubeproxy.dataplane.ipvs.steps import (
    FoundServer,
    Steps,
    as_written,
    drained,
    listed_weights,
    steps,
)
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
NONE: frozenset[RealKey] = frozenset()


@pytest.mark.parametrize(
    ("key", "wanted", "found", "draining", "expected"),
    [
        pytest.param(
            TCP,
            Server(RR, (A, B)),
            None,
            NONE,
            Steps((AddServer(TCP, RR), AddReal(TCP, A), AddReal(TCP, B))),
            id="new",
        ),
        pytest.param(TCP, Server(RR, (A,)), FoundServer(RR, {A: 1}), NONE, Steps(), id="as-it-is"),
        pytest.param(
            TCP,
            Server(SH, (A,)),
            FoundServer(RR, {A: 1}),
            NONE,
            Steps((SetServer(TCP, SH),)),
            id="another-scheduler",
        ),
        pytest.param(
            TCP,
            Server(RR, (A, B)),
            FoundServer(RR, {A: 1}),
            NONE,
            Steps((AddReal(TCP, B),)),
            id="one-more",
        ),
        pytest.param(
            TCP,
            Server(RR, (A,)),
            FoundServer(RR, {A: 1, B: 1}),
            NONE,
            Steps((SetReal(TCP, B, 0),), (B,)),
            id="tcp-leaves-gracefully",
        ),
        pytest.param(
            TCP,
            Server(RR, (A,)),
            FoundServer(RR, {A: 1, B: 0}),
            NONE,
            Steps((), (B,)),
            id="left-by-a-process-that-ended",
        ),
        pytest.param(
            UDP,
            Server(RR, (A,)),
            FoundServer(RR, {A: 1, B: 1}),
            NONE,
            Steps((DeleteReal(UDP, B),)),
            id="udp-leaves-at-once",
        ),
        pytest.param(
            SCTP,
            Server(RR),
            FoundServer(RR, {B: 0}),
            NONE,
            Steps((DeleteReal(SCTP, B),)),
            id="sctp-too",
        ),
        pytest.param(
            TCP,
            Server(RR, (A,)),
            FoundServer(RR, {A: 1, B: 0}),
            frozenset({B}),
            Steps((), (), frozenset({B})),
            id="drains-on",
        ),
        pytest.param(
            TCP,
            Server(RR, (A, B)),
            FoundServer(RR, {A: 1, B: 0}),
            frozenset({B}),
            Steps((SetReal(TCP, B, 1),)),
            id="comes-back-while-draining",
        ),
        pytest.param(
            TCP,
            Server(RR, (A, B)),
            FoundServer(RR, {A: 1}),
            frozenset({B}),
            Steps((AddReal(TCP, B),)),
            id="comes-back-after-another-program-removed-it",
        ),
        pytest.param(
            TCP,
            Server(RR, (A,)),
            FoundServer(RR, {A: 7}),
            NONE,
            Steps(),
            id="weights-of-others-stay",
        ),
    ],
)
def test_steps(
    key: ServerKey,
    wanted: Server,
    found: FoundServer | None,
    draining: frozenset[RealKey],
    expected: Steps,
) -> None:
    assert expected == steps(key, wanted, found, draining)
    assert bool(expected.commands or expected.leaving) == bool(expected)


def test_the_first_sync_resets_weights() -> None:
    found = FoundServer(RR, {A: 0, B: 7})
    actual = steps(TCP, Server(RR, (A, B)), found, NONE, resets=True)
    assert Steps((SetReal(TCP, A, 1), SetReal(TCP, B, 1))) == actual


def test_what_was_written() -> None:
    assert FoundServer(RR, {A: 1, B: 0}) == as_written(Server(RR, (A,)), {B})


def test_real_servers_without_connections_are_deleted() -> None:
    found = {A: RealServer(0, 1, 0), B: RealServer(0, 0, 0), C: RealServer(0, 0, 3)}
    gone = RealKey("10.64.3.99", 80)
    expected = ([DeleteReal(TCP, B)], frozenset({A, C}))
    assert expected == drained(TCP, (A, B, C, gone), found)


# --- the kernel's own list of virtual servers ---------------------------------------------------

LISTED = """\
IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
SCTP  0A600001:0063 rr  
TCP  [fd00:0000:0000:0000:0000:0000:0000:0001]:01BB rr 
  -> [fd00:0000:0000:0000:0000:0000:0000:0002]:20FB      Masq    0      0          0         
TCP  0A600001:0050 rr  persistent 60000 FFFFFFFF
  -> 0A010101:1F90      Masq    1      0          0         
  -> 0A010102:1F90      Masq    0      3          0         
FWM  0000004D rr 
  -> 0A010109:0000      Route   1      0          0         
UDP  0A600001:0035 mh  
  -> 0A010101:1F90      Masq    1      0          0         
"""  # noqa: W291  # as the kernel writes it
SERVED = RealKey("10.1.1.1", 8080)


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        pytest.param(
            Family.IPV4,
            {
                ServerKey(Protocol.SCTP, "10.96.0.1", 99): {},
                ServerKey(Protocol.TCP, "10.96.0.1", 80): {
                    SERVED: 1,
                    RealKey("10.1.1.2", 8080): 0,
                },
                ServerKey(Protocol.UDP, "10.96.0.1", 53): {SERVED: 1},
            },
            id="ipv4",
        ),
        pytest.param(
            Family.IPV6,
            {ServerKey(Protocol.TCP, "fd00::1", 443): {RealKey("fd00::2", 8443): 0}},
            id="ipv6",
        ),
    ],
)
def test_weights(family: Family, expected: dict[ServerKey, dict[RealKey, int]]) -> None:
    assert expected == listed_weights(LISTED, family)
