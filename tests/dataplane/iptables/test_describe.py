from kubeproxy.base.inet import Protocol
from kubeproxy.dataplane.iptables.describe import describe_some
from kubeproxy.dataplane.iptables.setup import RuleSetup
from kubeproxy.table.entries import ServicePortName
from world import endpoint_slice, everywhere, service, table_of

CART = ServicePortName("shop", "cart", "http", Protocol.TCP)
TABLE = table_of(
    everywhere(),
    service({"clusterIP": "10.112.0.30"}, name="books"),
    endpoint_slice("L1"),
)


def test_the_rules_of_one_service_port() -> None:
    text = describe_some(TABLE, [CART], RuleSetup())
    assert text.startswith("*nat\n-A KUBE-SERVICES")
    assert text.endswith("COMMIT\n")
    assert text.count("shop/cart:http cluster IP") == 1
    assert "-j DNAT --to-destination 10.64.3.11:8080\n" in text
    assert "books" not in text
    chains = {line.split()[0][1:] for line in text.splitlines() if line.startswith(":")}
    assert {chain[:8] for chain in chains} == {"KUBE-EXT", "KUBE-SVC", "KUBE-SEP"}


def test_one_without_endpoints_is_refused_in_the_filter_table() -> None:
    books = CART._replace(service="books")
    text = describe_some(TABLE, [books], RuleSetup())
    assert text.startswith("*filter\n-A KUBE-SERVICES")
    assert "shop/books:http has no endpoints" in text
    assert "*nat" not in text


def test_one_that_is_gone() -> None:
    assert describe_some(TABLE, [CART._replace(service="gone")], RuleSetup()) == ""
