"""Connections of service ports, added up."""

import pytest

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.serve.status.connections import Connections, busy, together
from kubeproxy.serve.traffic.totals import Look, Tally, Totals
from kubeproxy.table.entries import Frontend, FrontendKind, ServicePortName

V4, V6 = Family.IPV4, Family.IPV6
HTTP = ServicePortName("shop", "cart", "http", Protocol.TCP)
DNS = ServicePortName("shop", "cart", "dns", Protocol.UDP)
CIP = Frontend(FrontendKind.CLUSTER_IP, "10.112.0.21", 80)
VIP = Frontend(FrontendKind.LOAD_BALANCER, "203.0.113.7", 80)
IDLE = Tally({CIP: 7})


def look(before: dict[ServicePortName, Tally] | None, now: dict[ServicePortName, Tally]) -> Look:
    earlier = None if before is None else Totals(100.0, 1, before)
    return Look(Totals(102.0, 1, now), earlier)


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        pytest.param({}, Connections(None, None), id="the-mode-does-not-count"),
        pytest.param(
            {V4: look(None, {HTTP: Tally({CIP: 5, VIP: 1}), DNS: Tally({CIP: 2})})},
            Connections(8, None),
            id="somebody-looks-for-the-first-time",
        ),
        pytest.param(
            {V4: look({HTTP: Tally({CIP: 1, VIP: 1})}, {HTTP: Tally({CIP: 5, VIP: 1})})},
            Connections(6, 2.0),
            id="four-more-in-two-seconds",
        ),
        pytest.param(
            {V4: look({HTTP: IDLE}, {HTTP: IDLE}), V6: look({}, {HTTP: Tally({CIP: 1})})},
            Connections(8, 0.0),
            id="an-idle-one-and-one-that-was-not-there",
        ),
        pytest.param({V4: look({}, {})}, Connections(0, 0.0), id="not-read-yet"),
    ],
)
def test_all_ports_together(looks: dict[Family, Look], expected: Connections) -> None:
    assert expected == together(looks, [(V4, HTTP), (V4, DNS), (V6, HTTP)])


def test_the_busy_ones() -> None:
    now = {HTTP: Tally({CIP: 5}), DNS: IDLE}
    assert dict(busy(look({HTTP: Tally({CIP: 2}), DNS: IDLE}, now))) == {HTTP: 1.5}
    assert dict(busy(look(None, now))) == {}
