"""Services in a list: which are meant, what is said of each, and their connections."""

import msgspec
import pytest
from msgspec.structs import replace

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.base.steps import finish
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.serve.status.services import (
    Lost,
    Ports,
    Search,
    SearchText,
    first_of,
    list_pieces,
    losers,
    rates,
    search_text,
    service_list,
    summary,
    together,
)
from kubeproxy.serve.status.state import FamilyState
from kubeproxy.serve.status.wire import ServiceList, ServiceSummary
from kubeproxy.serve.traffic.totals import Tally, Totals, TrafficWindow
from kubeproxy.table.claims import Conflict
from kubeproxy.table.entries import (
    Frontend,
    FrontendKey,
    FrontendKind,
    ServicePortName,
)
from serve.status.living import Rig
from world import (
    CART,
    CLUSTER_IP,
    Document,
    cluster_of,
    endpoint_slice,
    everywhere,
    service,
    table_of,
)

V4, V6 = Family.IPV4, Family.IPV6
NAME = ServicePortName("shop", "cart", "http", Protocol.TCP)
TILL = ServicePortName("shop", "till", "", Protocol.TCP)


def family(which: Family = V4) -> FamilyState:
    return Rig().live.state().families[which]


def listed(*documents: Document, **changes: object) -> Ports:
    entries = table_of(*documents).entries.values()
    return [(replace(family(), **changes), entry) for entry in entries]


# --- which ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("cart", SearchText("cart"), id="a-name"),
        pytest.param(" Shop/Cart ", SearchText("shop/cart"), id="in-capitals-with-spaces"),
        pytest.param("cafe", SearchText("cafe", "cafe"), id="a-name-that-may-be-an-address"),
        pytest.param("10.64.3", SearchText("10.64.3", "10.64.3"), id="a-part-of-an-address"),
        pytest.param("31080", SearchText("31080", "31080"), id="a-port"),
        pytest.param(
            "10.64.3.11:8080",
            SearchText("10.64.3.11:8080", "10.64.3.11"),
            id="an-address-with-port",
        ),
        pytest.param(
            "[fd40::11]:80", SearchText("[fd40::11]:80", "fd40::11"), id="ipv6-with-port"
        ),
        pytest.param("FD40:0::11", SearchText("fd40:0::11", "fd40::11"), id="ipv6-in-other-words"),
        pytest.param("[fd40::11]", SearchText("[fd40::11]", "fd40::11"), id="ipv6-in-brackets"),
        pytest.param("fd40::", SearchText("fd40::", "fd40::"), id="a-part-of-ipv6"),
        pytest.param("10.64.3.11:x", SearchText("10.64.3.11:x"), id="no-port"),
    ],
)
def test_what_a_text_looks_for(text: str, expected: SearchText) -> None:
    assert expected == search_text(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cart", True),
        ("op/ca", True),
        ("CART", True),
        ("till", False),
        (CLUSTER_IP, True),
        (f"{CLUSTER_IP}:80", True),
        (f"{CLUSTER_IP}:81", False),
        ("203.0.113", True),
        ("31080", True),
        ("31081", False),
        ("10.64.3.11", True),
        ("10.64.3.11:8080", True),
        ("10.65.7.21", True),
        ("10.66.9.31", False),
    ],
)
def test_what_is_found(text: str, expected: bool) -> None:
    documents = (everywhere(), endpoint_slice("L1 R1:unready"))
    slices = cluster_of(*documents).slices(V4, CART)
    assert expected == search_text(text).fits(CART, listed(*documents), slices.values())


# --- a line for each --------------------------------------------------------------------------


def test_a_service_in_one_line() -> None:
    documents = (
        everywhere({"internalTrafficPolicy": "Cluster"}),
        endpoint_slice("L1 L2 R1:unready"),
    )
    entry = table_of(*documents).entries[NAME]
    tally = Tally(dict.fromkeys(entry.frontends, 2))
    found = listed(*documents, look=TrafficWindow(Totals(1.0, 1, {NAME: tally})))
    expected = ServiceSummary(
        namespace="shop",
        service="cart",
        addresses=(CLUSTER_IP, "203.0.113.7", "198.18.0.5"),
        ports=("http:80/TCP",),
        node_ports=(31080,),
        endpoints=3,
        endpoints_used=2,
        connections=8,
        per_second=None,
        problems=(),
    )
    assert expected == summary(CART, found, {})


def test_endpoints_that_two_policies_use_are_counted_once() -> None:
    found = listed(everywhere({"externalTrafficPolicy": "Local"}), endpoint_slice("L1 R1"))
    assert summary(CART, found, {}).endpoints_used == 2


def test_ports_without_names_and_of_both_families() -> None:
    (entry,) = table_of(service({"ports": [{"port": 53, "protocol": "UDP"}]})).entries.values()
    line = summary(CART, [(family(), entry), (family(V6), entry)], {})
    assert (line.ports, line.addresses) == (("53/UDP",), (CLUSTER_IP,))


def test_a_port_that_has_lost_its_addresses() -> None:
    (entry,) = table_of(service()).entries.values()
    without = msgspec.structs.replace(entry, frontends=())
    line = summary(CART, [(family(), without)], {})
    assert (line.ports, line.addresses) == (("http/TCP",), ())


TWO_PORTS = {
    "ports": [{"name": "http", "port": 80}, {"name": "admin", "port": 81, "protocol": "TCP"}]
}
LOST = Conflict(FrontendKey(CLUSTER_IP, Protocol.TCP, 80), loser=NAME, winner=TILL)


@pytest.mark.parametrize(
    ("documents", "failed", "lost", "expected"),
    [
        pytest.param((service(), endpoint_slice("L1")), {}, {}, (), id="all-is-well"),
        pytest.param((service(),), {}, {}, ("no endpoint can serve",), id="no-endpoints"),
        pytest.param(
            (service(TWO_PORTS),), {}, {}, ("no endpoint can serve",), id="no-port-has-endpoints"
        ),
        pytest.param(
            (service(TWO_PORTS), endpoint_slice("L1")),
            {},
            {},
            ("admin:81/TCP IPv4: no endpoint can serve",),
            id="one-port-has-none",
        ),
        pytest.param(
            (service(), endpoint_slice("L1")),
            {NAME: "no space left"},
            {},
            ("http:80/TCP IPv4: not programmed: no space left",),
            id="the-kernel-refused-it",
        ),
        pytest.param(
            (service(), endpoint_slice("L1")),
            {},
            {(V4, NAME): [LOST]},
            ("10.112.0.21:80/TCP is served by shop/till",),
            id="another-has-its-address",
        ),
    ],
)
def test_problems(
    documents: tuple[Document, ...],
    failed: dict[ServicePortName, str],
    lost: Lost,
    expected: tuple[str, ...],
) -> None:
    assert expected == summary(CART, listed(*documents, failed=failed), lost).problems


async def test_lost_addresses_are_found_by_their_losers() -> None:
    rig = Rig(service(), service(name="art"), families=(V4,))
    await rig.sync()
    ((key, found),) = losers(rig.live.state()).items()
    assert (key, [str(each.winner) for each in found]) == ((V4, NAME), ["shop/art:http"])


@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_list_as_json(count: int) -> None:
    line = summary(CART, listed(service()), {})
    expected = ServiceList("nftables", 9, 3, True, (line,) * count)
    text = b"".join(list_pieces(expected))
    assert expected == msgspec.json.decode(text, type=ServiceList)
    assert msgspec.json.encode(expected) == text


# --- connections ------------------------------------------------------------------------------

DNS = ServicePortName("shop", "cart", "dns", Protocol.UDP)
CIP = Frontend(FrontendKind.CLUSTER_IP, "10.112.0.21", 80)
VIP = Frontend(FrontendKind.LOAD_BALANCER, "203.0.113.7", 80)
IDLE = Tally({CIP: 7})


def look(
    before: dict[ServicePortName, Tally] | None, now: dict[ServicePortName, Tally]
) -> TrafficWindow:
    earlier = None if before is None else Totals(100.0, 1, before)
    return TrafficWindow(Totals(102.0, 1, now), earlier)


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        pytest.param({}, (None, None), id="the-mode-does-not-count"),
        pytest.param(
            {V4: look(None, {NAME: Tally({CIP: 5, VIP: 1}), DNS: Tally({CIP: 2})})},
            (8, None),
            id="counters-are-read-for-the-first-time",
        ),
        pytest.param(
            {V4: look({NAME: Tally({CIP: 1, VIP: 1})}, {NAME: Tally({CIP: 5, VIP: 1})})},
            (6, 2.0),
            id="four-more-in-two-seconds",
        ),
        pytest.param(
            {V4: look({NAME: IDLE}, {NAME: IDLE}), V6: look({}, {NAME: Tally({CIP: 1})})},
            (8, 0.0),
            id="an-idle-one-and-one-that-was-not-there",
        ),
        pytest.param({V4: look({}, {})}, (0, 0.0), id="not-read-yet"),
    ],
)
def test_all_ports_together(
    looks: dict[Family, TrafficWindow], expected: tuple[int | None, float | None]
) -> None:
    assert expected == together(
        (looks.get(each), name) for each, name in ((V4, NAME), (V4, DNS), (V6, NAME))
    )


async def test_the_busy_ones() -> None:
    state = Rig().live.state()
    now = {NAME: Tally({CIP: 5}), DNS: IDLE}
    for before, expected in (({NAME: Tally({CIP: 2}), DNS: IDLE}, {"shop/cart": 1.5}), (None, {})):
        four = replace(state.families[V4], look=look(before, now))
        found = finish(rates(replace(state, families={V4: four})))
        assert expected == found.services
        assert found.seconds == (2.0 if expected else 0.0)


async def test_a_service_that_goes_while_the_list_is_made_is_left_out() -> None:
    rig = Rig(service(), service({"clusterIP": "10.112.0.30"}, name="books"), families=(V4,))
    await rig.sync()
    steps = service_list(rig.live.state(), Search())
    for _ in range(5):  # two Services are found, sorted and merged
        next(steps)
    rig.syncs[V4].touch(key for _, key in rig.cluster.delete(Kind.SERVICE, CART).services)
    await rig.sync()
    found = finish(steps)
    assert (found.total, [each.service for each in found.services]) == (2, ["books"])


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 2000])
@pytest.mark.parametrize("count", [0, 1, 300])
def test_the_first_in_order(size: int, count: int) -> None:
    items = [number * 7919 % 2003 for number in range(size)]
    expected = sorted(items, key=lambda number: -number)[: count or None]
    assert expected == finish(first_of(items, lambda number: -number, count))
