"""`/status` and below: what is answered, and to which clients."""

import asyncio
import json
from urllib.parse import parse_qsl

import msgspec
import pytest

from fakes.fastpath import FakeFastPath
from kubeproxy.base.conntracktable import ConntrackUse, Lost
from kubeproxy.base.inet import Family, Protocol
from kubeproxy.base.writer import Writer
from kubeproxy.cluster.model.cluster import Problem
from kubeproxy.cluster.objects.meta import Kind, ObjectKey
from kubeproxy.cluster.source import Gap
from kubeproxy.dataplane.contract import FastPathState
from kubeproxy.dataplane.failures import UNKNOWN, Failure, Reason
from kubeproxy.engine.observer import ConnectionsFailed
from kubeproxy.engine.surroundings import Surroundings
from kubeproxy.explain.words import Explanation
from kubeproxy.serve.http.access import SOCKET_PEER, PageAccess
from kubeproxy.serve.http.answer import Answer
from kubeproxy.serve.http.request import Request
from kubeproxy.serve.status import wire
from kubeproxy.serve.status.clusterwire import read_cluster
from kubeproxy.serve.status.live import AT_ONCE
from kubeproxy.serve.status.tablewire import read_table
from kubeproxy.table import limits
from kubeproxy.table.entries import FrontendKey, ServicePortName
from serve.status.living import Rig, programmed
from world import CLUSTER_IP, Document, Mode, endpoint_slice, everywhere, service

V4, V6 = Family.IPV4, Family.IPV6
CART = ServicePortName("shop", "cart", "http", Protocol.TCP)
SHOP = (
    everywhere({"externalTrafficPolicy": "Local"}),
    endpoint_slice("L1 R1 R2:unready"),
    service({"clusterIP": "10.112.0.30", "ports": [{"port": 7}]}, name="books"),
)
OTHER: Document = {
    "metadata": {"namespace": "other", "name": "cart"},
    "spec": {"clusterIP": "10.112.0.99", "ports": [{"port": 80}]},
}
NO_LIMIT = "must be a number of up to 10 digits, 0 for all\n"


async def answered(
    rig: Rig,
    target: str,
    *,
    access: PageAccess = PageAccess.LOCAL,
    peer: str = "127.0.0.1",
    accept: str = "",
) -> tuple[int, bytes]:
    path, _, query = target.partition("?")
    pairs = tuple(parse_qsl(query, keep_blank_values=True))
    request = Request(
        "GET",
        path,
        dict(reversed(pairs)),
        {"accept": accept},
        peer=peer,
        pairs=pairs,
        trusted=True,
    )
    answer = rig.page(status_page=access.value)(request)
    if not isinstance(answer, Answer):
        answer = await answer
    if isinstance(answer.body, bytes):
        return answer.status, answer.body
    return answer.status, b"".join([piece async for piece in answer.body])


async def asked(rig: Rig, target: str) -> bytes:
    code, body = await answered(rig, target)
    assert code == 200, body
    return body


async def services(rig: Rig, query: str = "") -> wire.ServiceList:
    body = await asked(rig, f"/status/services{query}")
    return msgspec.json.decode(body, type=wire.ServiceList)


async def names(rig: Rig, query: str) -> list[str]:
    found = await services(rig, query)
    return [each.service for each in found.services]


# --- access, and paths ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/status?format=json",
        "/status/services",
        "/status/services/shop/cart",
        "/status/table",
        "/status/cluster",
    ],
)
async def test_it_is_not_for_everybody(path: str) -> None:
    rig = await programmed(*SHOP)
    code, body = await answered(rig, path, peer="192.0.2.50")
    assert (code, b"--status-page=all" in body) == (403, True)
    assert (await answered(rig, path, access=PageAccess.NONE))[0] == 404
    code, _ = await answered(rig, "/status/rates", access=PageAccess.NONE, peer=SOCKET_PEER)
    assert code == 200


@pytest.mark.parametrize(
    "path",
    ["/status/nothing", "/status/services/a/b/c", "/status/rates/now", "/status/table/IPv4"],
)
async def test_a_path_that_there_is_not(path: str) -> None:
    code, body = await answered(await programmed(), path)
    assert code == 404
    assert body.decode() == (
        "there is no such page, but these: /status, /status/services, /status/rates,"
        " /status/failures, /status/explain, /status/table, /status/cluster,"
        " /status/services/NAMESPACE/NAME,"
        " /status/services/NAME\n"
    )


# --- the daemon -------------------------------------------------------------------------------


async def test_the_daemon() -> None:
    rig = await programmed(*SHOP)
    for path in ("/status?format=json", "/status/?format=json"):
        found = msgspec.json.decode(await asked(rig, path), type=wire.DaemonStatus)
        assert (found.node, found.mode, found.source) == (
            "kestrel",
            "nftables",
            "manifests in /srv",
        )
        assert found.started == "2023-11-14T22:13:20.000Z"
        assert found.now > found.started
        assert found.uptime_seconds > 0
        assert found.memory_bytes > 1 << 20
        assert (found.healthy, found.node_eligible, found.counts_connections) == (True,) * 3
    four, six = found.families
    assert (four.services, four.service_ports, four.frontends, four.endpoints) == (2, 2, 5, 3)
    assert (six.ip_family, six.services, six.syncs) == ("IPv6", 0, 1)
    assert (four.syncs, four.failures, four.waiting_seconds) == (1, 0, None)
    expected = wire.Sync(
        "2023-11-14T22:13:20.000Z", four.history[0].seconds, True, "ok", added=2, written=2
    )
    assert (expected,) * 3 == (four.last_sync, four.last_full_sync, four.history[0])


async def test_the_fast_path() -> None:
    rig = await programmed(*SHOP)
    found = msgspec.json.decode(await asked(rig, "/status?format=json"), type=wire.DaemonStatus)
    assert found.fast_path is None
    path = FakeFastPath(FastPathState(True, "", devices=("eth0",), packets=20), IPv4=3)
    rig.has_fast_path(path)
    found = msgspec.json.decode(await asked(rig, "/status?format=json"), type=wire.DaemonStatus)
    expected = wire.FastPathStatus(True, True, "", "", 20, ("eth0",), (), {"IPv4": 3})
    assert found.fast_path == expected
    path.breaks = True
    found = msgspec.json.decode(await asked(rig, "/status?format=json"), type=wire.DaemonStatus)
    assert found.fast_path is not None
    assert found.fast_path.connections == {}
    path.state = FastPathState(True, "self-test", "packets are lost", packets=20)
    found = msgspec.json.decode(await asked(rig, "/status?format=json"), type=wire.DaemonStatus)
    assert found.fast_path is not None
    assert (found.fast_path.on, found.fast_path.why_not) == (False, "packets are lost")


async def test_what_is_wrong_with_it() -> None:
    rig = Rig(*SHOP, service(name="till"), counts=False)
    rig.kernels[V4].refuse = {"books"}
    rig.kernels[V6].fail = 1
    await rig.sync()
    for each in rig.syncs.values():
        each._is_open = True
        each.request()
    found = msgspec.json.decode(await asked(rig, "/status?format=json"), type=wire.DaemonStatus)
    four, six = found.families
    assert four.not_programmed == (
        wire.NotProgrammed("shop/books", "TCP", "the kernel does not want it"),
    )
    assert four.conflicts == (
        wire.AddressConflict("10.112.0.21:80/TCP", "shop/cart:http", "shop/till:http"),
    )
    assert four.last_sync is not None
    assert six.last_sync is not None
    assert (four.last_sync.outcome, six.last_sync.outcome) == ("partly", "failed")
    assert (four.failures, six.failures, found.counts_connections) == (0, 1, False)
    assert (four.failure, six.failure) == ("", "no buffer space")


async def test_what_its_source_cannot_read_and_what_is_not_valid() -> None:
    rig = await programmed(*SHOP)
    rig.gaps = [Gap("everything", "connection refused", 3.0)]
    rig.ignored = [Problem(Kind.SERVICE, ObjectKey("shop", "till"), "no such address")]
    found = msgspec.json.decode(await asked(rig, "/status?format=json"), type=wire.DaemonStatus)
    assert found.gaps == (wire.SourceGap("everything", "connection refused", 3.0),)
    assert found.ignored == (wire.Ignored("Service shop/till", "no such address"),)
    page = (await asked(rig, "/status?format=html")).decode()
    assert "everything, for 3 s" in page
    assert "Service shop/till" in page


async def test_what_packets_need_besides_rules() -> None:
    rig = await programmed(*SHOP)
    assert rig.syncs[V4].builder.count_conflicts() == 0
    rig.surroundings = Surroundings(
        conntrack=ConntrackUse(950, 1000, 7, 9),
        lost=Lost(1, 2),
        not_forwarded=frozenset({V4}),
        missing_addresses={V4: "192.0.2.9"},
        no_node=True,
        silence=3.0,
    )
    found = msgspec.json.decode(await asked(rig, "/status?format=json"), type=wire.DaemonStatus)
    assert found.conntrack == wire.ConntrackState(950, 1000, 1, 2)
    assert (found.node_found, found.source_silent_seconds) == (False, 3.0)
    four, six = found.families
    assert (four.forwarded, six.forwarded) == (False, True)
    assert (four.missing_address, six.missing_address) == ("192.0.2.9", "")
    assert (four.without_endpoint, six.without_endpoint) == (("shop/books",), ())
    page = (await asked(rig, "/status?format=html")).decode()
    assert "not well" in page
    assert "tracking 95 % full" in page


async def test_who_changed_the_rules() -> None:
    rig = await programmed(*SHOP)
    rig.syncs[V4].invalidate(Writer("nft", 4711))
    found = msgspec.json.decode(await asked(rig, "/status?format=json"), type=wire.DaemonStatus)
    four, six = found.families
    assert (four.foreign_changes.total, four.foreign_changes.of_late) == (1, 1)
    assert (four.foreign_changes.program, four.foreign_changes.pid) == ("nft", 4711)
    assert six.foreign_changes == wire.ForeignChanges()


async def test_before_the_first_sync() -> None:
    rig = Rig(*SHOP)
    found = msgspec.json.decode(await asked(rig, "/status?format=json"), type=wire.DaemonStatus)
    assert [(each.last_sync, each.last_full_sync, each.history) for each in found.families] == [
        (None, None, ())
    ] * 2
    assert (await services(rig)).total == 0
    assert b"it waits for the next sync" in await asked(rig, "/status/services/shop/cart")
    expected = "nothing is programmed yet: ask again when the first sync is over\n"
    code, body = await answered(rig, "/status/explain?to=cart")
    assert (code, body.decode()) == (503, expected)
    code, body = await answered(rig, "/status/table?family=IPv4")
    assert (code, body.decode()) == (503, f"IPv4: {expected}")
    code, body = await answered(rig, "/status/cluster")
    assert (code, body.decode()) == (503, expected)


async def test_a_family_whose_first_sync_failed_is_named_where_it_is_missed() -> None:
    rig = Rig(*SHOP)
    rig.kernels[V4].fail = 1
    await rig.sync()
    code, body = await answered(rig, f"/status/explain?to={CLUSTER_IP}:80")
    assert (code, body.decode()) == (
        400,
        f"to {CLUSTER_IP}:80: IPv4 is not proxied here (nothing of IPv4 is programmed yet)\n",
    )


async def test_questions_are_of_some_destinations_at_once() -> None:
    rig = await programmed(*SHOP)
    many = "&".join(["to=cart"] * 50)
    assert len(json.loads(await asked(rig, f"/status/explain?{many}"))) >= 50
    code, body = await answered(rig, f"/status/explain?{many}&to=cart")
    assert (code, body) == (400, b"to: ask for no more than 50 destinations at once\n")


# --- services ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("", ["cart", "books", "cart"], id="all-by-name"),
        pytest.param("?q=books", ["books"], id="by-name"),
        pytest.param("?q=%20", ["cart", "books", "cart"], id="nothing-in-particular"),
        pytest.param("?q=10.66.9.31", ["cart"], id="by-an-endpoint-that-is-not-used"),
        pytest.param("?q=10.112.0.99", ["cart"], id="by-cluster-ip"),
        pytest.param("?q=nothing", [], id="none"),
        pytest.param("?limit=1", ["cart"], id="the-first"),
        pytest.param("?limit=0&sort=name", ["cart", "books", "cart"], id="without-a-limit"),
        pytest.param("?sort=connections", ["cart", "books", "cart"], id="by-connections"),
        pytest.param("?sort=connections&limit=1", ["cart"], id="the-one-with-the-most"),
        pytest.param("?sort=rate", ["cart", "books", "cart"], id="by-rate"),
        pytest.param("?limit=1&offset=1", ["books"], id="the-second"),
        pytest.param("?sort=rate&limit=2&offset=1", ["books", "cart"], id="of-an-order"),
        pytest.param("?offset=3", [], id="behind-the-last"),
        pytest.param("?problems=false", ["cart", "books", "cart"], id="whatever-is-wrong"),
        pytest.param("?problems=true", ["cart", "books"], id="with-problems"),
    ],
)
async def test_services_are_found_and_sorted(query: str, expected: list[str]) -> None:
    rig = await programmed(*SHOP, OTHER)
    assert expected == await names(rig, query)


async def test_a_limit_says_how_many_there_are() -> None:
    found = await services(await programmed(*SHOP, OTHER), "?q=shop/&limit=1")
    assert (found.mode, found.total, found.matching) == ("nftables", 3, 2)
    assert len(found.services) == 1


async def test_connections_and_rates() -> None:
    rig = await programmed(*SHOP)
    rig.kernels[V4].counted[CART] = 5
    assert [(e.connections, e.per_second) for e in (await services(rig)).services] == [
        (0, None),
        (5, None),
    ]
    rig.kernels[V4].counted[CART] = 25
    first, *_ = (await services(rig, "?sort=rate")).services
    assert (first.service, first.connections) == ("cart", 25)
    assert first.per_second is not None
    assert first.per_second > 0
    rig.kernels[V4].counted[CART] = 35
    found = msgspec.json.decode(await asked(rig, "/status/rates"), type=wire.ServiceRates)
    assert found.services.keys() == {"shop/cart"}
    assert found.services["shop/cart"] == pytest.approx(10 / found.seconds)


async def test_where_the_mode_does_not_count() -> None:
    rig = Rig(*SHOP, mode=Mode.IPTABLES, counts=False)
    await rig.sync()
    found = await services(rig, "?sort=connections")
    assert not found.counts_connections
    assert {each.connections for each in found.services} == {None}
    rates = msgspec.json.decode(await asked(rig, "/status/rates"), type=wire.ServiceRates)
    assert (rates.seconds, rates.services) == (0.0, {})
    detail = json.loads(await asked(rig, "/status/services/shop/cart"))
    assert (detail["countsConnections"], detail["ports"][0]["balance"]) == (False, "")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?sort=size", "sort=size: must be one of name, connections, rate\n"),
        ("?problems=yes", "problems=yes: must be true or false\n"),
        ("?offset=-1", "offset=-1: must be a number of up to 10 digits\n"),
        (
            "?search=x",
            "search: there is no such parameter, but q, sort, problems, offset, limit, format\n",
        ),
        ("?limit=many", f"limit=many: {NO_LIMIT}"),
        ("?limit=-1", f"limit=-1: {NO_LIMIT}"),
        ("?limit=99999999999", f"limit=99999999999: {NO_LIMIT}"),
        (f"?limit={'9' * 5000}", f"limit={'9' * 40}: {NO_LIMIT}"),
    ],
)
async def test_lists_that_cannot_be_made(query: str, expected: str) -> None:
    code, body = await answered(await programmed(), f"/status/services{query}")
    assert (code, body.decode()) == (400, expected)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("", [1, 2], id="all"),
        pytest.param("?after=1", [2], id="those-after"),
        pytest.param("?after=", [1, 2], id="an-empty-number"),
    ],
)
async def test_failures(query: str, expected: list[int]) -> None:
    rig = await programmed(*SHOP)
    key = FrontendKey(CLUSTER_IP, Protocol.TCP, 80)
    failure = Failure(Reason.REFUSED, "10.64.3.50", key, UNKNOWN)
    rig.observe(ConnectionsFailed(Family.IPV4, ((CART, failure),) * 2))
    body = await asked(rig, f"/status/failures{query}")
    found = msgspec.json.decode(body, type=wire.FailureList)
    assert expected == [each.number for each in found.failures]


async def test_failures_after_what_is_no_number() -> None:
    code, body = await answered(await programmed(), "/status/failures?after=x")
    assert (code, body) == (400, b"after=x: must be a number of up to 10 digits\n")


@pytest.mark.parametrize("path", ["shop/cart", "shop/cart/", "/shop//cart"])
async def test_one_service(path: str) -> None:
    rig = await programmed(*SHOP, OTHER)
    body = await asked(rig, f"/status/services/{path}")
    found = msgspec.json.decode(body, type=wire.ServiceDetail)
    assert (found.node, found.namespace, found.service) == ("kestrel", "shop", "cart")
    (port,) = found.ports
    assert (port.name, port.balance, port.not_programmed) == ("http", "random", "")
    assert [(each.address, each.used) for each in port.endpoints] == [
        ("10.64.3.11", True),
        ("10.65.7.21", True),
        ("10.66.9.31", False),
    ]


async def test_ports_beyond_a_limit_are_shown_without_their_endpoints(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "MOST", limits.Size(10, 2, 10))
    ports = [{"name": name, "port": number} for number, name in enumerate("ab", 1)]
    rig = Rig(service({"ports": ports}), endpoint_slice("L1 R1", {"ports": ports}))
    await rig.sync()
    first, second = json.loads(await asked(rig, "/status/services/shop/cart"))["ports"]
    assert (len(first["endpoints"]), first["notProgrammed"]) == (2, "")
    assert second["endpoints"] == []
    assert second["notProgrammed"].startswith("1 of its 2 ports are served")


async def test_one_service_by_its_name_alone() -> None:
    rig = await programmed(*SHOP, OTHER)
    assert b'"namespace":"shop"' in await asked(rig, "/status/services/books")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param(
            "cart", "several Services have that name: other/cart, shop/cart\n", id="two-have-it"
        ),
        pytest.param(
            "missing",
            "no Service named missing is proxied: /status/services?q=TEXT finds those that are\n",
            id="none-has-it",
        ),
        pytest.param(
            "other/books",
            "no service ports for other/books\na service of this name is in: shop\n"
            "namespace other has: cart\n/status/services lists all; a Service that is headless, or"
            " of type ExternalName, has none\n",
            id="near-names",
        ),
    ],
)
async def test_services_that_there_are_not(path: str, expected: str) -> None:
    code, body = await answered(await programmed(*SHOP, OTHER), f"/status/services/{path}")
    assert (code, body.decode()) == (404, expected)


async def test_tools_get_advice_in_their_words() -> None:
    rig = await programmed(*SHOP, OTHER)
    for path, expected in (
        ("missing", ": kube-proxy services --search TEXT finds those that are\n"),
        ("other/books", "kube-proxy services lists all; "),
    ):
        _, body = await answered(rig, f"/status/services/{path}", accept="application/json")
        assert expected in body.decode()


# --- packets ----------------------------------------------------------------------------------


async def test_packets_are_explained() -> None:
    rig = await programmed(*SHOP)
    body = await asked(rig, "/status/explain?from=10.64.3.50&to=cart&to=books&interface=eth0")
    cart, books = msgspec.json.decode(body, type=list[Explanation])
    assert (cart.destination, cart.verdict, cart.source_class) == (
        f"{CLUSTER_IP}:80/TCP",
        "forward",
        "pod",
    )
    assert [each.endpoint for each in cart.endpoints] == ["10.64.3.11:8080", "10.65.7.21:8080"]
    assert [each.reason for each in cart.not_chosen] == ["it is not ready"]
    assert (books.verdict, books.reason) == ("reject", "no-endpoints")
    outside = json.loads(await asked(rig, "/status/explain?to=203.0.113.7:80"))
    assert (outside[0]["source"], outside[0]["sourceClass"]) == ("192.0.2.1", "outside")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param(
            "",
            "to is missing: say where the packet goes, such as ?to=SERVICE:PORT\n",
            id="nowhere",
        ),
        pytest.param(
            "?from=10.64.3.50&to=",
            "to is missing: say where the packet goes, such as ?to=SERVICE:PORT\n",
            id="an-empty-field",
        ),
        pytest.param(
            "?to=cart&from=web-1",
            "from web-1: it is no address, and the daemon knows no Pods; give the Pod's address"
            " (kubectl get pods -o wide), outside or host\n",
            id="from-a-pod",
        ),
        pytest.param(
            "?to=cart&to=missing",
            "to missing: no such Service is proxied; give [NAMESPACE/]NAME or an address (headless"
            " and ExternalName Services are not proxied)\n",
            id="to-no-service",
        ),
        pytest.param(
            "?to=%1B[31m",
            "to \ufffd[31m: no such Service is proxied; give [NAMESPACE/]NAME or an address"
            " (headless and ExternalName Services are not proxied)\n",
            id="to-what-would-colour-a-terminal",
        ),
        pytest.param(
            "?to=cart&from=fd00::9",
            "from fd00::9: it is IPv6, but the destination is IPv4\n",
            id="two-families",
        ),
    ],
)
async def test_questions_that_have_no_answer(query: str, expected: str) -> None:
    code, body = await answered(await programmed(*SHOP), f"/status/explain{query}")
    assert (code, body.decode()) == (400, expected)


async def test_programs_get_the_field_that_is_wrong() -> None:
    rig = await programmed(*SHOP)
    code, body = await answered(rig, "/status/explain?to=cart:9", accept="application/json")
    reason = "the Service has no such port, but these: http (80/TCP)"
    assert (code, json.loads(body)) == (400, {"field": "to", "value": "cart:9", "reason": reason})


async def test_a_service_that_went_since_the_last_sync_is_still_explained() -> None:
    rig = await programmed(*SHOP)
    rig.put(service({"clusterIP": "None"}))
    (found,) = json.loads(await asked(rig, "/status/explain?to=cart"))
    assert (found["verdict"], found["notChosen"]) == ("forward", [])
    assert [each["node"] for each in found["endpoints"]] == ["", ""]


# --- the table --------------------------------------------------------------------------------


async def test_the_table_of_a_family() -> None:
    rig = await programmed(*SHOP)
    found = read_table(await asked(rig, "/status/table?family=ipv4"))
    assert found.table == rig.syncs[V4].builder.table


async def test_the_cluster() -> None:
    rig = await programmed(*SHOP)
    found = read_cluster(await asked(rig, "/status/cluster"))
    assert dict(found.cluster.all_slices()) == dict(rig.cluster.all_slices())


@pytest.mark.parametrize(
    ("families", "query", "expected"),
    [
        ((V4, V6), "", "family=: must be IPv4 or IPv6\n"),
        ((V4,), "?family=IPv6", "family=IPv6: must be IPv4\n"),
    ],
)
async def test_families_that_it_does_not_have(
    families: tuple[Family, ...], query: str, expected: str
) -> None:
    rig = Rig(*SHOP, families=families)
    await rig.sync()
    code, body = await answered(rig, f"/status/table{query}")
    assert (code, body.decode()) == (400, expected)


# --- browsers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "accept", "expected"),
    [
        pytest.param("/status", "text/html,*/*", True, id="the-daemon"),
        pytest.param("/status", "*/*", True, id="the-daemon-for-a-client-without-a-wish"),
        pytest.param("/status", "application/json", False, id="the-daemon-as-json"),
        pytest.param("/status/services/shop/cart", "text/html", True, id="a-service"),
        pytest.param("/status/services/shop/cart", "*/*", False, id="a-service-as-json"),
        pytest.param(
            "/status/services/shop/cart?format=json", "text/html", False, id="json-in-a-browser"
        ),
    ],
)
async def test_browsers_get_pages(target: str, accept: str, expected: bool) -> None:
    rig = await programmed(*SHOP)
    code, body = await answered(rig, target, accept=accept)
    assert code == 200
    assert expected == body.startswith(b"<!doctype html>")


# --- how many at once -------------------------------------------------------------------------


async def test_clients_of_ports_wait_for_each_other_and_root_does_not() -> None:
    rig = await programmed(*SHOP)
    for _ in range(AT_ONCE):
        await rig.live.a_few.acquire()
    waiting = asyncio.ensure_future(answered(rig, "/status?format=json"))
    code, _ = await answered(rig, "/status/services", peer=SOCKET_PEER)
    assert code == 200
    assert not waiting.done()
    rig.live.a_few.release()
    assert (await waiting)[0] == 200


async def test_all_who_ask_at_once_are_answered() -> None:
    rig = await programmed(*SHOP)
    asking = (answered(rig, "/status/services") for _ in range(5 * AT_ONCE))
    assert {200} == {code for code, _ in await asyncio.gather(*asking)}
