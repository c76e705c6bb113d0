import msgspec
import pytest

from kubeproxy.table.rows import HEADER, aligned, entry_rows, rows
from world import (
    CLUSTER_IP,
    EXTERNAL_IP,
    NODE_PORT,
    VIP,
    Document,
    Mode,
    endpoint_slice,
    everywhere,
    node,
    prefix,
    service,
    table_of,
)

NFT = Mode.NFTABLES
CIP = f"{CLUSTER_IP}:80/TCP"
BOTH = "10.64.3.11:8080 10.65.7.21:8080"
LOCAL: Document = {"externalTrafficPolicy": "Local"}


def rows_of(svc: Document, endpoints: str, **here: object) -> list[tuple[str, ...]]:
    table = table_of(svc, endpoint_slice(endpoints))
    return rows(table, msgspec.structs.replace(node(NFT), **here), NFT.quirks)


def test_sources_that_fare_alike_share_a_row() -> None:
    assert [
        (CIP, "pod", BOTH, "hairpin", "-"),
        (CIP, "host outside", BOTH, "always", "-"),
        (f"{VIP}:80/TCP", "any", BOTH, "always", "-"),
        (f"{EXTERNAL_IP}:80/TCP", "any", BOTH, "always", "-"),
        (f"node:{NODE_PORT}/TCP", "any", BOTH, "always", "-"),
    ] == rows_of(everywhere(), "L1 R1")


def test_every_source_has_a_row_where_all_fare_differently() -> None:
    assert [
        (f"{VIP}:80/TCP", "pod", BOTH, "hairpin", "-"),
        (f"{VIP}:80/TCP", "host", BOTH, "always", "-"),
        (f"{VIP}:80/TCP", "outside", "10.64.3.11:8080", "hairpin", "-"),
    ] == rows_of(everywhere(LOCAL), "L1 R1")[2:5]


def test_nobody_is_a_pod_without_a_detector() -> None:
    assert [
        (f"{VIP}:80/TCP", "host", BOTH, "always", "-"),
        (f"{VIP}:80/TCP", "outside", "10.64.3.11:8080", "hairpin", "-"),
    ] == rows_of(everywhere(LOCAL), "L1 R1", detector=None)[1:3]


@pytest.mark.parametrize(
    ("spec", "endpoints", "backends", "refusal"),
    [
        pytest.param({}, "", "-", "reject", id="no-endpoint-anywhere"),
        pytest.param({"internalTrafficPolicy": "Local"}, "R1", "-", "drop", id="no-endpoint-here"),
        pytest.param(
            {"sessionAffinity": "ClientIP"},
            "L1",
            "10.64.3.11:8080 (affinity 10800 s)",
            "-",
            id="affinity",
        ),
        pytest.param(
            {"sessionAffinity": "ClientIP"}, "", "-", "reject", id="affinity-without-endpoints"
        ),
    ],
)
def test_backends_of_a_cluster_ip(
    spec: Document, endpoints: str, backends: str, refusal: str
) -> None:
    assert [(CIP, "any", backends, "always", refusal)] == rows_of(
        service(spec), endpoints, masquerade_all=True
    )


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        pytest.param(["192.0.2.0/25"], "10.64.3.11:8080 (only from 192.0.2.0/25)", id="ranges"),
        pytest.param(["2001:db8::/32"], "10.64.3.11:8080 (no source allowed)", id="other-family"),
        pytest.param(["0.0.0.0/0"], "10.64.3.11:8080", id="everybody"),
    ],
)
def test_source_ranges_stand_beside_load_balancer_ips_only(
    ranges: list[str], expected: str
) -> None:
    found = rows_of(everywhere({"loadBalancerSourceRanges": ranges}), "L1")
    assert expected == found[2][2]
    assert [row[2] for row in (*found[:2], *found[3:])] == ["10.64.3.11:8080"] * 4


def test_rows_are_in_the_order_of_names() -> None:
    table = table_of(
        service(name="till"), service({"clusterIP": "10.112.0.22"}, name="bill"), endpoint_slice()
    )
    every = rows(table, node(NFT), NFT.quirks)
    assert list(dict.fromkeys(row[0] for row in every)) == ["10.112.0.22:80/TCP", CIP]
    bill, _ = (table.entries[name] for name in sorted(table.entries))
    assert every[: len(every) // 2] == list(entry_rows(bill, node(NFT), NFT.quirks))


def test_columns_are_aligned() -> None:
    assert aligned(rows_of(service(), "L1")) == (
        "FRONTEND             SOURCE         BACKENDS          MASQUERADE   REFUSAL\n"
        "10.112.0.21:80/TCP   pod            10.64.3.11:8080   hairpin      -\n"
        "10.112.0.21:80/TCP   host outside   10.64.3.11:8080   always       -"
    )


def test_an_empty_table_is_its_header() -> None:
    assert "   ".join(HEADER) == aligned([])


@pytest.mark.parametrize(
    ("mode", "endpoints", "here", "expected"),
    [
        pytest.param(
            NFT,
            "L1",
            {"node_port_ranges": (prefix("127.0.0.0/8"),)},
            [("any", "-", "-", "not served")],
            id="localhost-that-is-not-served",
        ),
        pytest.param(
            NFT, "", {"node_port_ranges": ()}, [("any", "-", "-", "not served")], id="no-address"
        ),
        pytest.param(
            Mode.IPTABLES,
            "L1",
            {"node_port_ranges": (prefix("127.0.0.0/8"),)},
            [("any", "10.64.3.11:8080", "always", "-")],
            id="localhost-that-is-served",
        ),
        pytest.param(
            Mode.IPTABLES,
            "",
            {"node_port_ranges": (prefix("127.0.0.0/8"),), "localhost_node_ports": False},
            [("any", "-", "always", "reject")],
            id="what-iptables-mode-refuses-everywhere",
        ),
    ],
)
def test_a_node_port_without_an_address_is_not_served(
    mode: Mode, endpoints: str, here: dict[str, object], expected: list[tuple[str, ...]]
) -> None:
    table = table_of(everywhere(), endpoint_slice(endpoints))
    found = rows(table, msgspec.structs.replace(node(mode), **here), mode.quirks)
    name = f"node:{NODE_PORT}/TCP"
    assert expected == [row[1:] for row in found if row[0] == name]
