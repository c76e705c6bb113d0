"""The rules over HTTP: which clients may ask, what is found, as text and as JSON."""

import asyncio
import json
from collections.abc import AsyncIterable, Sequence

import pytest

from kubeproxy.base.inet import Family
from kubeproxy.serve.http.access import PageAccess
from kubeproxy.serve.http.answer import Answer
from kubeproxy.serve.http.request import Request
from kubeproxy.table.entries import ServicePortName, Table
from serve.status.living import Counter, Rig
from world import Document, Mode, endpoint_slice, everywhere, service

LOCAL = "127.0.0.1"


class Writer(Counter):
    """A dataplane that can show what it wrote."""

    def written(self, table: Table, names: Sequence[ServicePortName]) -> str:
        return "".join(f"{table.family.value} {name}\n" for name in names)


async def programmed(
    *documents: Document,
    families: tuple[Family, ...] = (Family.IPV4,),
    mode: Mode = Mode.NFTABLES,
    refuse: str = "",
    kernel: type[Counter] = Writer,
) -> Rig:
    rig = Rig(*documents, families=families, mode=mode, kernel=kernel)
    for each in rig.kernels.values():
        each.refuse = {refuse}
    await rig.sync()
    return rig


CART = (everywhere({"externalTrafficPolicy": "Local"}), endpoint_slice("L1 R1"))
BOOKS = service(
    {"clusterIP": "10.112.0.30", "ports": [{"port": 80}], "sessionAffinity": "ClientIP"},
    name="books",
)


def request(path: str, *, peer: str = LOCAL, method: str = "GET", **headers: str) -> Request:
    path, _, query = path.partition("?")
    name, _, value = query.partition("=")
    return Request(method, path, {name: value} if query else {}, headers, peer=peer, trusted=True)


async def body_of(answer: Answer) -> str:
    if isinstance(answer.body, bytes):
        return answer.body.decode()
    return b"".join([piece async for piece in answer.body]).decode()


async def answered(rig: Rig, asking: Request, access: PageAccess = PageAccess.LOCAL) -> Answer:
    answer = rig.page(rules_page=access.value)(asking)
    return answer if isinstance(answer, Answer) else await answer


async def asked(path: str, rig: Rig, **headers: str) -> tuple[int, str]:
    answer = await answered(rig, request(path, **headers))
    return answer.status, await body_of(answer)


# --- access -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("access", "peer", "method", "status", "words"),
    [
        pytest.param(PageAccess.LOCAL, LOCAL, "GET", 200, "shop/cart", id="local-from-here"),
        pytest.param(PageAccess.LOCAL, LOCAL, "HEAD", 200, "shop/cart", id="head-too"),
        pytest.param(
            PageAccess.LOCAL,
            "192.0.2.50",
            "GET",
            403,
            "--rules-page=all",
            id="local-from-elsewhere",
        ),
        pytest.param(
            PageAccess.LOCAL, "", "GET", 403, "yours is not known", id="local-from-nowhere"
        ),
        pytest.param(
            PageAccess.ALL, "192.0.2.50", "GET", 200, "shop/cart", id="all-from-elsewhere"
        ),
        pytest.param(PageAccess.NONE, LOCAL, "GET", 404, "rulesPage is none", id="none"),
        pytest.param(PageAccess.LOCAL, LOCAL, "DELETE", 405, "only be read", id="no-changes"),
    ],
)
async def test_who_may_ask(
    access: PageAccess, peer: str, method: str, status: int, words: str
) -> None:
    rig = await programmed(*CART)
    answer = await answered(rig, request("/rules", peer=peer, method=method), access)
    assert answer.status == status
    text = await body_of(answer)
    assert words in text
    assert ("10.64.3.11" in text) == (status == 200)


# --- what is found ----------------------------------------------------------------------------


async def test_the_table_as_text() -> None:
    status, text = await asked("/rules", await programmed(*CART))
    assert status == 200
    heading, blank, title, header, *rows = text.splitlines()
    assert heading == "# IPv4: 1 service port, mode nftables"
    assert blank == ""
    assert title == (
        "shop/cart:http  TCP, IPv4, internalTrafficPolicy Cluster, externalTrafficPolicy Local,"
        " random"
    )
    assert header.split() == ["FRONTEND", "SOURCE", "BACKENDS", "MASQUERADE", "REFUSAL"]
    words = [row.split() for row in rows if row]
    assert ["10.112.0.21:80/TCP", "pod", "10.64.3.11:8080", "10.65.7.21:8080", "hairpin", "-"] in (
        words
    )
    assert ["node:31080/TCP", "outside", "10.64.3.11:8080", "hairpin", "-"] in words
    assert "written" not in text


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/rules", {"shop/cart:http", "shop/books"}),
        ("/rules/", {"shop/cart:http", "shop/books"}),
        ("/rules/shop", {"shop/cart:http", "shop/books"}),
        ("/rules/shop/cart", {"shop/cart:http"}),
        ("/rules/shop/cart/http", {"shop/cart:http"}),
        ("/rules/shop/books", {"shop/books"}),
    ],
)
async def test_a_path_chooses(path: str, expected: set[str]) -> None:
    status, text = await asked(path, await programmed(*CART, BOOKS))
    assert status == 200
    assert expected == {line.split("  ")[0] for line in text.splitlines() if line[:1] == "s"}


async def test_one_service_with_what_was_written_in_both_families() -> None:
    ips = ["10.112.0.21", "fd00::21"]
    dual = service({"clusterIPs": ips, "ipFamilies": ["IPv4", "IPv6"]})
    _, text = await asked("/rules/shop/cart", await programmed(dual, families=tuple(Family)))
    assert "# IPv4, written last in nftables mode\nIPv4 shop/cart:http\n" in text
    assert "# IPv6, written last in nftables mode\nIPv6 shop/cart:http\n" in text


async def test_what_was_written_for_many_ports_is_put_into_words_in_parts() -> None:
    ports = [{"name": f"p{number:02}", "port": number} for number in range(1, 46)]
    many = service({"clusterIP": "10.112.0.31", "ports": ports}, name="many")
    _, text = await asked("/rules/shop/many", await programmed(many), accept="application/json")
    parts = [each["text"].splitlines() for each in json.loads(text)["written"]]
    assert [len(part) for part in parts] == [20, 20, 5]
    lines = [line for part in parts for line in part]
    assert lines == [f"IPv4 shop/many:{port['name']}" for port in ports]


async def test_one_family_has_it_and_the_other_has_not() -> None:
    _, text = await asked("/rules/shop/cart", await programmed(*CART, families=tuple(Family)))
    assert "# IPv6: 0 service ports, mode nftables\n" in text
    assert "# IPv6, written last in nftables mode: nothing\n" in text


async def test_a_dataplane_that_cannot_show() -> None:
    _, text = await asked("/rules/shop/cart", await programmed(*CART, kernel=Counter))
    assert "# IPv4, written last in nftables mode: nothing\n" in text


async def test_what_the_kernel_refused_is_said() -> None:
    _, text = await asked("/rules", await programmed(*CART, refuse="cart"))
    assert "NOT PROGRAMMED: the kernel does not want it" in text


async def test_no_balance_in_other_modes() -> None:
    _, text = await asked("/rules", await programmed(BOOKS, mode=Mode.IPTABLES))
    assert "shop/books  TCP, IPv4, internalTrafficPolicy Cluster\n" in text


async def test_as_json() -> None:
    shown = await programmed(
        everywhere({"loadBalancerSourceRanges": ["192.0.2.0/24"]}), endpoint_slice("L1")
    )
    _, text = await asked("/rules/shop/cart", shown, accept="application/json")
    document = json.loads(text)
    (port,) = document["servicePorts"]
    assert document["written"] == [
        {"ipFamily": "IPv4", "mode": "nftables", "text": "IPv4 shop/cart:http\n"}
    ]
    assert port.pop("rows")[0] == {
        "frontend": "10.112.0.21:80/TCP",
        "source": "pod",
        "backends": "10.64.3.11:8080",
        "masquerade": "hairpin",
        "refusal": "-",
    }
    assert port == {
        "namespace": "shop",
        "service": "cart",
        "port": "http",
        "protocol": "TCP",
        "ipFamily": "IPv4",
        "frontends": [
            {"kind": "cluster IP", "port": 80, "address": "10.112.0.21"},
            {"kind": "load-balancer IP", "port": 80, "address": "203.0.113.7"},
            {"kind": "external IP", "port": 80, "address": "198.18.0.5"},
            {"kind": "node port", "port": 31080},
        ],
        "internalTrafficPolicy": "Cluster",
        "externalTrafficPolicy": "Cluster",
        "endpoints": ["10.64.3.11:8080"],
        "sourceRanges": ["192.0.2.0/24"],
        "balance": "random",
    }


async def test_all_as_json_has_nothing_of_the_kernel() -> None:
    _, text = await asked("/rules?format=json", await programmed(*CART, BOOKS))
    document = json.loads(text)
    assert {port["service"] for port in document["servicePorts"]} == {"cart", "books"}
    assert document.keys() == {"servicePorts"}


async def test_an_empty_table() -> None:
    assert await asked("/rules", await programmed()) == (
        200,
        "# IPv4: 0 service ports, mode nftables\n\n",
    )
    assert json.loads((await asked("/rules?format=json", await programmed()))[1]) == {
        "servicePorts": []
    }
    assert await asked("/rules", Rig()) == (200, "\n")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        pytest.param("/rules/shop/crat", "namespace shop has: books, cart", id="service"),
        pytest.param("/rules/store/cart", "a service of this name is in: shop", id="namespace"),
        pytest.param("/rules/store", "no rules for store", id="namespace-alone"),
        pytest.param("/rules/shop/cart/http/x", "no rules for shop/cart/http/x", id="too-long"),
        pytest.param("/rules/\x1b[2J/x", "no rules for \ufffd[2J/x", id="nothing-for-terminals"),
    ],
)
async def test_what_is_unknown(path: str, words: str) -> None:
    status, text = await asked(path, await programmed(*CART, BOOKS))
    assert status == 404
    assert words in text
    assert "/rules lists all" in text


async def test_a_namespace_with_many_services_is_told_in_part() -> None:
    many = [
        service({"clusterIP": f"10.112.1.{number}"}, name=f"s{number:02}") for number in range(25)
    ]
    _, text = await asked("/rules/shop/none", await programmed(*many))
    assert "namespace shop has: s00, s01" in text
    assert "s19 and 5 more\n" in text


async def test_others_get_their_turn_while_a_large_table_is_shown() -> None:
    many = [
        service({"clusterIP": f"10.112.{number >> 8}.{number & 255}"}, name=f"s{number}")
        for number in range(400)
    ]
    rig = await programmed(*many)
    answer = await answered(rig, request("/rules"))
    table = rig.syncs[Family.IPV4].builder.table
    assert isinstance(answer.body, AsyncIterable)
    turns = 0
    pieces: list[bytes] = []

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(others())
    async for piece in answer.body:
        pieces.append(piece)
        if len(pieces) == 1:
            for name in list(table.entries)[-10:]:
                table.remove(name)
    other.cancel()
    assert turns >= len(pieces) - 1 > 1
    # What goes while the page is on its way is left out, and breaks nothing.
    assert b"".join(pieces).count(b"internalTrafficPolicy") == 390
