import pytest

from kubeproxy.base.errors import OperatorError
from kubeproxy.base.inet import Family, Protocol
from kubeproxy.explain.question import (
    Origin,
    Pod,
    Question,
    Target,
    find_pods,
    questions,
    source_address,
    targets,
)
from kubeproxy.table.decide import Packet
from kubeproxy.table.entries import Table
from world import CLUSTER_IP, VIP, Document, endpoint_slice, everywhere, service, table_of

V4, V6 = Family.IPV4, Family.IPV6
TCP, UDP = Protocol.TCP, Protocol.UDP
DNS_IP, DNS_IP6 = "10.112.0.10", "fd12::10"
IP4, IP6 = "198.51.100.10", "2001:db8:aa::10"

DNS: Document = {
    "metadata": {"namespace": "kube-system", "name": "dns"},
    "spec": {
        "clusterIP": DNS_IP,
        "clusterIPs": [DNS_IP, DNS_IP6],
        "ipFamilies": ["IPv4", "IPv6"],
        "ports": [
            {"name": "dns", "port": 53, "protocol": "UDP"},
            {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
        ],
    },
}
NAMELESS = service({"clusterIP": "10.112.0.30", "ports": [{"port": 7}]}, name="echo")
OTHER_CART: Document = {
    "metadata": {"namespace": "other", "name": "cart"},
    "spec": {"clusterIP": "10.112.0.99", "ports": [{"port": 80}]},
}


def tables(*documents: Document) -> dict[Family, Table]:
    return {family: table_of(*documents, family=family) for family in Family}


WORLD = tables(everywhere(), DNS, NAMELESS, endpoint_slice("L1"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("10.112.0.10:53/udp", [Target(DNS_IP, UDP, 53)], id="all-is-said"),
        pytest.param("10.112.0.10:53/UDP", [Target(DNS_IP, UDP, 53)], id="upper-case"),
        pytest.param("10.112.0.10:53", [Target(DNS_IP, TCP, 53)], id="tcp-unless-said"),
        pytest.param("[fd12::10]:53/udp", [Target(DNS_IP6, UDP, 53)], id="ipv6"),
        pytest.param(
            "fd12::10", [Target(DNS_IP6, TCP, 53), Target(DNS_IP6, UDP, 53)], id="ipv6-no-port"
        ),
        pytest.param(
            "[fd12::10]", [Target(DNS_IP6, TCP, 53), Target(DNS_IP6, UDP, 53)], id="brackets-only"
        ),
        pytest.param(
            "10.112.0.10", [Target(DNS_IP, TCP, 53), Target(DNS_IP, UDP, 53)], id="all-ports"
        ),
        pytest.param("10.112.0.10/udp", [Target(DNS_IP, UDP, 53)], id="all-ports-of-a-protocol"),
        pytest.param(
            "192.0.2.9",
            [Target("192.0.2.9", None, 0, ("without a port, it is taken for a ping",))],
            id="an-address-that-serves-nothing-is-pinged",
        ),
        pytest.param("shop/cart", [Target(CLUSTER_IP, TCP, 80)], id="service"),
        pytest.param("cart", [Target(CLUSTER_IP, TCP, 80)], id="service-without-namespace"),
        pytest.param("cart:80", [Target(CLUSTER_IP, TCP, 80)], id="port-by-number"),
        pytest.param("cart:http", [Target(CLUSTER_IP, TCP, 80)], id="port-by-name"),
        pytest.param("shop/cart:http/tcp", [Target(CLUSTER_IP, TCP, 80)], id="service-in-full"),
        pytest.param("shop/cart/tcp", [Target(CLUSTER_IP, TCP, 80)], id="service-and-protocol"),
        pytest.param("echo:7", [Target("10.112.0.30", TCP, 7)], id="port-without-a-name"),
        pytest.param(
            "kube-system/dns:dns",
            [Target(DNS_IP, UDP, 53), Target(DNS_IP6, UDP, 53)],
            id="both-families",
        ),
        pytest.param(
            "dns:53/tcp",
            [Target(DNS_IP, TCP, 53), Target(DNS_IP6, TCP, 53)],
            id="one-number-two-protocols",
        ),
    ],
)
def test_targets(text: str, expected: list[Target]) -> None:
    assert expected == targets(text, WORLD)


UNKNOWN = (
    "no such Service is proxied; give [NAMESPACE/]NAME or an address "
    "(headless and ExternalName Services are not proxied)"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("till", f"--to till: {UNKNOWN}", id="unknown-service"),
        pytest.param("other/cart", f"--to other/cart: {UNKNOWN}", id="another-namespace"),
        pytest.param("10.112.0.300:53", f"--to 10.112.0.300:53: {UNKNOWN}", id="bad-address"),
        pytest.param(":80", f"--to :80: {UNKNOWN}", id="no-name"),
        pytest.param("", f"--to : {UNKNOWN}", id="nothing"),
        pytest.param(
            "10.112.0.10:http", "--to 10.112.0.10:http: 'http' is not a port number", id="bad-port"
        ),
        pytest.param("10.112.0.10:0", "--to 10.112.0.10:0: '0' is not a port number", id="zero"),
        pytest.param(
            "[fd12::10]:65536",
            "--to [fd12::10]:65536: '65536' is not a port number",
            id="too-high",
        ),
        pytest.param(
            "10.112.0.10:٣", "--to 10.112.0.10:٣: '٣' is not a port number", id="another-script"
        ),
        pytest.param(
            "10.112.0.10:53/icmp",
            "--to 10.112.0.10:53/icmp: '53/icmp' is not a port number",
            id="bad-protocol",
        ),
        pytest.param(
            "10.112.0.10/sctp",
            "--to 10.112.0.10/sctp: no service serves SCTP there; give ADDRESS:PORT/SCTP",
            id="protocol-without-a-port",
        ),
        pytest.param(
            "cart:https",
            "--to cart:https: the Service has no such port, but these: http (80/TCP)",
            id="no-such-port-name",
        ),
        pytest.param(
            "dns:54",
            "--to dns:54: the Service has no such port, but these: dns (53/UDP), dns-tcp (53/TCP)",
            id="no-such-port-number",
        ),
        pytest.param(
            "echo/udp",
            "--to echo/udp: the Service has no such port, but these: 7/TCP",
            id="no-such-protocol",
        ),
    ],
)
def test_destinations_that_name_nothing(text: str, expected: str) -> None:
    with pytest.raises(OperatorError) as caught:
        targets(text, WORLD)
    assert expected == str(caught.value)


def test_a_name_in_two_namespaces() -> None:
    both = tables(service(), OTHER_CART)
    with pytest.raises(OperatorError) as caught:
        targets("cart", both)
    expected = "--to cart: several Services have that name: other/cart, shop/cart"
    assert expected == str(caught.value)
    assert [Target("10.112.0.99", TCP, 80)] == targets("other/cart", both)


def test_a_service_whose_cluster_ip_another_has() -> None:
    twice = tables(service(), service(name="till"))
    with pytest.raises(OperatorError) as caught:
        targets("till", twice)
    assert str(caught.value) == "--to till: another Service has its cluster IP; give an address"


def test_an_address_of_a_family_that_is_not_proxied() -> None:
    with pytest.raises(OperatorError) as caught:
        targets("fd12::10", {V4: WORLD[V4]})
    assert str(caught.value) == "--to fd12::10: IPv6 is not proxied here"


# --- sources ----------------------------------------------------------------------------------

PODS = (
    Pod("shop", "client", ("10.64.3.50", "fd40::50"), "kestrel"),
    Pod("shop", "far", ("10.65.7.99",), "heron"),
    Pod("shop", "pending", ()),
    Pod("shop", "nowhere", ("10.64.3.51",)),
    Pod("shop", "twin", ("10.64.3.52",), "kestrel"),
    Pod("other", "twin", ("10.64.3.53",), "kestrel"),
)
ORIGIN = Origin("kestrel", {V4: IP4, V6: IP6}, PODS)
STRANGER = Origin("kestrel", {})


FAR = "10.65.7.99 is Pod shop/far, whose packets are handled on node heron (--node heron)"


@pytest.mark.parametrize(
    ("text", "family", "origin", "expected"),
    [
        pytest.param(
            "outside",
            V4,
            ORIGIN,
            ("192.0.2.1", "192.0.2.1 stands for any client outside (--from ADDRESS names one)"),
            id="outside",
        ),
        pytest.param(
            "outside",
            V6,
            ORIGIN,
            (
                "2001:db8::1",
                "2001:db8::1 stands for any client outside (--from ADDRESS names one)",
            ),
            id="outside-ipv6",
        ),
        pytest.param("host", V4, ORIGIN, (IP4,), id="host"),
        pytest.param("host", V6, ORIGIN, (IP6,), id="host-ipv6"),
        pytest.param(
            "host",
            V4,
            STRANGER,
            ("127.0.0.1", "the IPv4 address of the node is not known: assuming 127.0.0.1"),
            id="host-without-address",
        ),
        pytest.param("192.0.2.9", V4, ORIGIN, ("192.0.2.9",), id="address"),
        pytest.param("FD00::09", V6, ORIGIN, ("fd00::9",), id="address-in-other-words"),
        pytest.param("[fd40::9]", V6, ORIGIN, ("fd40::9",), id="ipv6-in-brackets"),
        pytest.param(
            "client", V4, ORIGIN, ("10.64.3.50", "10.64.3.50 is Pod shop/client"), id="pod"
        ),
        pytest.param(
            "shop/client", V6, ORIGIN, ("fd40::50", "fd40::50 is Pod shop/client"), id="pod-ipv6"
        ),
        pytest.param(
            "far",
            V4,
            ORIGIN,
            ("10.65.7.99", FAR),
            id="pod-of-another-node",
        ),
        pytest.param(
            "nowhere", V4, ORIGIN, ("10.64.3.51", "10.64.3.51 is Pod shop/nowhere"), id="no-node"
        ),
    ],
)
def test_source_address(
    text: str, family: Family, origin: Origin, expected: tuple[str, ...]
) -> None:
    address, notes = source_address(text, family, origin)
    assert expected == (address, *notes)


@pytest.mark.parametrize(
    ("text", "family", "expected"),
    [
        pytest.param(
            "192.0.2.9",
            V6,
            "--from 192.0.2.9: it is IPv4, but the destination is IPv6",
            id="mixed-families",
        ),
        pytest.param(
            "shop/missing",
            V4,
            "--from shop/missing: it is no address, and no Pod of that name is known; give "
            "[NAMESPACE/]POD, its address, outside or host (with --manifests, Pods are read "
            "from there too: kubectl get pods -A -o yaml)",
            id="unknown-pod",
        ),
        pytest.param(
            "twin",
            V4,
            "--from twin: several Pods have that name: other/twin, shop/twin",
            id="a-name-in-two-namespaces",
        ),
        pytest.param(
            "far", V6, "--from far: the Pod has no IPv6 address", id="no-address-of-the-family"
        ),
        pytest.param(
            "pending", V4, "--from pending: the Pod has no IPv4 address", id="no-address-at-all"
        ),
    ],
)
def test_sources_that_name_nothing(text: str, family: Family, expected: str) -> None:
    with pytest.raises(OperatorError) as caught:
        source_address(text, family, ORIGIN)
    assert expected == str(caught.value)


def test_where_pods_are_not_known() -> None:
    with pytest.raises(OperatorError) as caught:
        source_address("shop/client", V4, Origin("kestrel", ORIGIN.ips, pods=None))
    expected = (
        "--from shop/client: it is no address, and the daemon knows no Pods; give the Pod's "
        "address (kubectl get pods -o wide), outside or host"
    )
    assert expected == str(caught.value)


def test_pods_by_name() -> None:
    assert list(map(str, find_pods("twin", PODS))) == ["shop/twin", "other/twin"]
    assert list(map(str, find_pods("other/twin", PODS))) == ["other/twin"]
    assert find_pods("", PODS) == []


# --- both together ----------------------------------------------------------------------------


def test_a_question_for_each_family_that_source_and_destination_share() -> None:
    asked = questions("client", "dns:dns", WORLD, ORIGIN)
    assert [
        Question(Packet("10.64.3.50", DNS_IP, UDP, 53), ("10.64.3.50 is Pod shop/client",)),
        Question(Packet("fd40::50", DNS_IP6, UDP, 53), ("fd40::50 is Pod shop/client",)),
    ] == asked


def test_families_that_they_do_not_share_are_left_out() -> None:
    (asked,) = questions("10.64.3.50", "dns:dns", WORLD, ORIGIN)
    assert Packet("10.64.3.50", DNS_IP, UDP, 53) == asked.packet


def test_no_family_in_common() -> None:
    with pytest.raises(OperatorError) as caught:
        questions("10.64.3.50", "[fd12::10]:53", WORLD, ORIGIN)
    assert str(caught.value) == "--from 10.64.3.50: it is IPv4, but the destination is IPv6"


def test_the_node_sends_without_entering_through_an_interface() -> None:
    origin = Origin("kestrel", ORIGIN.ips, PODS, "cni0")
    entered = [
        questions(source, f"{VIP}:80", WORLD, origin)[0].packet.interface
        for source in ("client", "host", "outside")
    ]
    assert entered == ["cni0", "", "cni0"]


def test_notes_of_the_destination_come_first() -> None:
    (asked,) = questions("client", "192.0.2.9", WORLD, ORIGIN)
    expected = ("without a port, it is taken for a ping", "10.64.3.50 is Pod shop/client")
    assert expected == asked.notes
