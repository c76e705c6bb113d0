import pytest

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.table.entries import (
    Backend,
    Entry,
    Frontend,
    FrontendKey,
    FrontendKind,
    HealthCheck,
    ServiceName,
    ServicePortName,
    Table,
)
from world import CLUSTER_IP, NODE_PORT, VIP, everywhere, service, table_of

TCP, UDP = Protocol.TCP, Protocol.UDP
CART = ServicePortName("shop", "cart", "http", TCP)
TILL = ServicePortName("shop", "till", "http", TCP)
CLUSTER_IP_80 = Frontend(FrontendKind.CLUSTER_IP, CLUSTER_IP, 80)
VIP_80 = Frontend(FrontendKind.LOAD_BALANCER, VIP, 80)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (CART, "shop/cart:http"),
        (CART._replace(port=""), "shop/cart"),
        (ServiceName("shop", "cart"), "shop/cart"),
        (FrontendKey(CLUSTER_IP, UDP, 53), "10.112.0.21:53/UDP"),
        (FrontendKey("fd12::1", TCP, 53), "[fd12::1]:53/TCP"),
        (FrontendKey("", TCP, NODE_PORT), "node:31080/TCP"),
        (Backend("10.64.3.11", 8080), "10.64.3.11:8080"),
        (Backend("fd40::11", 8080), "[fd40::11]:8080"),
    ],
)
def test_values_in_words(value: object, expected: str) -> None:
    assert expected == str(value)


def test_only_the_cluster_ip_is_internal() -> None:
    assert [kind for kind in FrontendKind if not kind.external] == [FrontendKind.CLUSTER_IP]


def test_an_entry_knows_its_destinations() -> None:
    (entry,) = table_of(everywhere()).entries.values()
    assert TCP is entry.protocol
    assert list(map(str, entry.keys())) == [
        "10.112.0.21:80/TCP",
        "203.0.113.7:80/TCP",
        "198.18.0.5:80/TCP",
        "node:31080/TCP",
    ]
    assert entry.addresses(FrontendKind.LOAD_BALANCER) == (VIP,)
    assert entry.find(FrontendKey(VIP, TCP, 80)) == VIP_80
    assert entry.find(FrontendKey(VIP, UDP, 80)) is None


def test_the_load_balancer_wins_over_an_external_ip_of_the_same_address() -> None:
    external = Frontend(FrontendKind.EXTERNAL_IP, VIP, 80)
    assert Entry(CART, (external, VIP_80)).find(FrontendKey(VIP, TCP, 80)) == VIP_80


def test_a_table_finds_entries_by_destination() -> None:
    entry = Entry(CART, (CLUSTER_IP_80,))
    table = Table(Family.IPV4)
    table.put(entry)
    assert entry == table.find(FrontendKey(CLUSTER_IP, TCP, 80))
    assert table.find(FrontendKey(CLUSTER_IP, TCP, 81)) is None


def test_a_table_knows_what_an_address_leads_to() -> None:
    ports = [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "web", "port": 7}]
    table = table_of(service({"ports": ports}))
    table.put(Entry(TILL, (Frontend(FrontendKind.EXTERNAL_IP, CLUSTER_IP, 9), VIP_80)))
    expected = [f"{CLUSTER_IP}:7/TCP", f"{CLUSTER_IP}:9/TCP", f"{CLUSTER_IP}:53/UDP"]
    assert expected == list(map(str, table.destinations(CLUSTER_IP)))
    assert table.destinations("192.0.2.9") == []


def test_a_table_counts_the_addresses_that_ports_share() -> None:
    table = Table(Family.IPV4)
    for name, port in ((CART, 80), (CART._replace(port="https"), 443)):
        table.put(Entry(name, (CLUSTER_IP_80._replace(port=port), VIP_80._replace(port=port))))
    assert list(table.cluster_ips()) == [CLUSTER_IP]
    table.remove(CART)
    assert (table.is_cluster_ip(CLUSTER_IP), table.is_service_ip(VIP)) == (True, True)
    table.remove(CART._replace(port="https"))
    assert (table.is_cluster_ip(CLUSTER_IP), table.is_service_ip(VIP)) == (False, False)
    assert list(table.cluster_ips()) == []


def test_a_node_port_is_no_address() -> None:
    table = table_of(everywhere())
    assert (table.is_service_ip(VIP), table.is_service_ip("")) == (True, False)


def test_a_load_balancer_ip_is_no_cluster_ip() -> None:
    table = table_of(everywhere())
    assert (table.is_cluster_ip(CLUSTER_IP), table.is_cluster_ip(VIP)) == (True, False)


def test_replacing_an_entry_forgets_what_it_had() -> None:
    table = Table(Family.IPV4)
    table.put(Entry(CART, (CLUSTER_IP_80, VIP_80)))
    table.put(Entry(CART, (CLUSTER_IP_80,)))
    assert table.find(FrontendKey(VIP, TCP, 80)) is None
    assert not table.is_service_ip(VIP)


def test_removing_what_is_gone_changes_nothing() -> None:
    table = table_of(service())
    table.remove(TILL)
    assert table_of(service()) == table


def test_an_entry_that_lost_its_destination_does_not_take_it_away() -> None:
    winner = Entry(TILL, (VIP_80,))
    table = Table(Family.IPV4)
    table.put(Entry(CART, (VIP_80,)))
    table.put(winner)
    table.remove(CART)
    assert winner == table.find(FrontendKey(VIP, TCP, 80))
    assert table.is_service_ip(VIP)


def with_check(port: int) -> Table:
    table = table_of(service())
    table.health_checks[ServiceName("shop", "cart")] = HealthCheck(port, 0)
    return table


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        pytest.param(table_of(service()), True, id="same-objects"),
        pytest.param(table_of(service(name="till")), False, id="another-name"),
        pytest.param(table_of(), False, id="nothing"),
        pytest.param(Table(Family.IPV6), False, id="another-family"),
        pytest.param(with_check(32100), False, id="a-health-check"),
        pytest.param(object(), False, id="no-table"),
    ],
)
def test_tables_compare_by_what_they_hold(other: object, expected: bool) -> None:
    assert expected is (table_of(service()) == other)


def test_a_table_is_no_key() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Table(Family.IPV4))
