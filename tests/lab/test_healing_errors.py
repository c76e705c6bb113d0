"""Errors of ICMP in place of a reset; and what healing has nothing to do with."""

import msgspec
import pytest

from kubeproxy.base.inet import Protocol
from lab.attempts import HOST, OUTSIDE, POD, WAYS, Attempt, Way, attempt
from lab.connection import Flow
from lab.deploy import UDP, Port, deploy, everywhere
from lab.dialer import Dialer
from lab.failures import UNREACHABLE, failing, without_route
from lab.healed import NODE_PORT, PORTS, Healer, healed
from lab.modes import only
from lab.outcome import Fate
from lab.plan import ENDPOINT_PORTS, HAS_SCTP

FOUR = "L1 L2 R1 R2"
ERRORS = {
    number: (target, UNREACHABLE[kind])
    for number, (target, kind) in enumerate(zip(ENDPOINT_PORTS, UNREACHABLE, strict=False), 21)
}
"""Services, each with the port of its endpoints, and what is said there."""

pytestmark = only("nftables", reason="other modes do not heal")


def services() -> list[dict[str, object]]:
    return [
        document
        for number, (target, _) in ERRORS.items()
        for document in healed(
            deploy(f"web-{number}", everywhere(number), FOUR, [Port(80, target)])
        )
    ]


def dial_all(kernel: Healer, ways: tuple[Way, ...], times: int) -> list[Attempt]:
    """Each Service in each way so often."""
    probes = [
        way.probe(number, kernel.family, 0)
        for number in ERRORS
        for way in ways
        for _ in range(times)
    ]
    return attempt(kernel.network, probes)


def test_who_is_told_that_one_of_four_is_unreachable_gets_another(kernel: Healer) -> None:
    kernel.put(services())
    kernel.answering(*ERRORS)
    with (
        failing(kernel.network, ERRORS[21][1], "R2", port=ERRORS[21][0]) as first,
        failing(kernel.network, ERRORS[22][1], "R2", port=ERRORS[22][0]) as second,
        failing(kernel.network, ERRORS[23][1], "R2", port=ERRORS[23][0]) as third,
        failing(kernel.network, ERRORS[24][1], "R2", port=ERRORS[24][0]) as fourth,
    ):
        found = dial_all(kernel, (POD, HOST, OUTSIDE), 4)
        counts = [each["R2"].count for each in (first, second, third, fourth)]
    assert {each.who for each in found} == {"L1", "L2", "R1"}
    assert sum(counts) == sum(each.retries for each in found)
    assert min(counts) >= 3


def test_all_are_unreachable(kernel: Healer) -> None:
    """The client is told at its first retry."""
    target, verdict = ERRORS[21]
    kernel.put(services())
    with failing(kernel.network, verdict, *FOUR.split(), port=target):
        found = kernel.dial((POD, HOST, OUTSIDE), 2)
    assert found == [Attempt("ECONNREFUSED", 1)] * 6


@pytest.mark.parametrize("kind", ["unreachable", "prohibit"])
def test_the_node_has_no_route_to_one_of_four(kernel: Healer, kind: str) -> None:
    """What it forwards it answers with an error of its own; what it sends comes to nothing."""
    kernel.put(healed(deploy("web", everywhere(21), FOUR, PORTS)))
    kernel.answering()
    last = kernel.turn()[-1]
    with without_route(kernel.network, kind, last, kernel.family):
        found = kernel.dial(times=4)
    assert {each.who for each in found} == {*FOUR.split()} - {last}
    assert sum(each.retries for each in found) >= len(WAYS)


# --- untouched --------------------------------------------------------------------------------


def test_datagrams_are_refused_at_once(kernel: Healer) -> None:
    """Each of the ports has healing by the Service's annotation."""
    ports = [*PORTS, Port(80, 8082, NODE_PORT + 1, UDP)]
    kernel.put(healed(deploy("web", everywhere(21), FOUR, ports)))
    dialer = Dialer(kernel.network)
    for way in (POD, HOST, OUTSIDE):
        probe = way.probe(21, kernel.family, 0)
        probe = msgspec.structs.replace(probe, protocol=Protocol.UDP)
        flow = Flow(dialer.open(probe), kernel.network, probe.source)
        assert flow.ask().fate is Fate.UNREACHABLE
        flow.close()


@pytest.mark.skipif(not HAS_SCTP, reason="this kernel has no SCTP")
def test_connections_of_sctp_are_refused_at_once(kernel: Healer) -> None:
    ports = [*PORTS, Port(80, 8082, NODE_PORT + 1, Protocol.SCTP)]
    kernel.put(healed(deploy("web", everywhere(21), FOUR, ports)))
    probes = [way.probe(21, kernel.family, 0) for way in (POD, HOST, OUTSIDE)]
    sctp = [msgspec.structs.replace(each, protocol=Protocol.SCTP) for each in probes]
    assert {each.fate for each in Dialer(kernel.network).dial(sctp)} == {Fate.REFUSED}


def test_resets_of_open_connections_pass(kernel: Healer) -> None:
    kernel.put(healed(deploy("web", everywhere(21), FOUR, PORTS)))
    connections = [kernel.connect(way) for way in WAYS]
    kernel.network.reset_connections()
    for connection in connections:
        connection.wait_reset()
