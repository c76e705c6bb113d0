import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fakes.apiserver import FakeApiServer
from kubeproxy.base.errors import ApiServerError, OperatorError
from kubeproxy.base.inet import Family
from kubeproxy.cluster.client.access import Access
from kubeproxy.cluster.events import Delete, Event, Reset, Synced, Upsert
from kubeproxy.cluster.objects.decode import convert
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.explain.question import Pod
from kubeproxy.tools.snapshot import (
    Snapshot,
    Viewpoint,
    choose_node,
    from_api_server,
    from_manifests,
)
from tools.manifests import SHOP, node_named, of_kind, pod, write
from world import CART, NODE_PORT, Document, endpoint_slice, everywhere, kestrel, service

V4 = Family.IPV4
HERE = Viewpoint(hostname="kestrel")
PODS = (
    Pod("shop", "near", (), "kestrel"),
    Pod("shop", "far", (), "heron"),
    Pod("shop", "pending", ()),
    Pod("shop", "twin", (), "kestrel"),
    Pod("other", "twin", (), "heron"),
)


@pytest.mark.parametrize(
    ("wanted", "nodes", "expected"),
    [
        pytest.param(Viewpoint(node="heron"), ("heron", "kestrel"), "heron", id="asked-for"),
        pytest.param(Viewpoint(node="heron"), (), "heron", id="asked-for-and-nothing-is-known"),
        pytest.param(HERE, ("heron", "kestrel"), "kestrel", id="this-machine"),
        pytest.param(HERE, (), "kestrel", id="this-machine-and-nothing-is-known"),
        pytest.param(HERE, ("heron",), "heron", id="the-only-one"),
        pytest.param(
            Viewpoint(hostname="kestrel", pod="far"), ("heron", "kestrel"), "heron", id="the-pods"
        ),
        pytest.param(
            Viewpoint("kestrel", pod="far"), ("heron", "kestrel"), "kestrel", id="asked-for-wins"
        ),
        pytest.param(
            Viewpoint(hostname="kestrel", pod="far"),
            ("kestrel",),
            "kestrel",
            id="pods-is-not-known",
        ),
        pytest.param(
            Viewpoint(hostname="kestrel", pod="pending"),
            ("heron", "kestrel"),
            "kestrel",
            id="pod-has-none-yet",
        ),
        pytest.param(
            Viewpoint(hostname="kestrel", pod="twin"),
            ("heron", "kestrel"),
            "kestrel",
            id="which-pod-is-not-clear",
        ),
    ],
)
def test_choose_node(wanted: Viewpoint, nodes: tuple[str, ...], expected: str) -> None:
    assert expected == choose_node(wanted, nodes, PODS)


MANY = tuple(f"node-{number}" for number in range(10, 25))


@pytest.mark.parametrize(
    ("wanted", "nodes", "expected"),
    [
        pytest.param(
            Viewpoint(node="merlin"),
            ("heron", "kestrel"),
            "there is no Node merlin; there are: heron, kestrel",
            id="unknown",
        ),
        pytest.param(
            Viewpoint(hostname="laptop"),
            ("heron", "kestrel"),
            "on which node is the packet? Give --node with one of: heron, kestrel",
            id="not-said",
        ),
        pytest.param(
            Viewpoint(hostname="laptop"),
            MANY,
            "on which node is the packet? Give --node with one of: node-10, node-11, node-12, "
            "node-13, node-14, node-15, node-16, node-17, node-18, node-19 and 5 more",
            id="not-said-among-many",
        ),
    ],
)
def test_no_node_to_choose(wanted: Viewpoint, nodes: tuple[str, ...], expected: str) -> None:
    with pytest.raises(OperatorError) as caught:
        choose_node(wanted, nodes, ())
    assert expected == str(caught.value)


# --- manifests --------------------------------------------------------------------------------


def found(directory: Path, *documents: Document, wanted: Viewpoint = HERE) -> Snapshot:
    write(directory, documents)
    return from_manifests([str(directory)], wanted)


def test_manifests(tmp_path: Path) -> None:
    snapshot = found(tmp_path, *SHOP)
    cluster = snapshot.cluster
    assert (cluster.node_name, cluster.zone) == ("kestrel", "z-east")
    assert [port.name for port in cluster.service_ports(V4, CART)] == ["http"]
    assert list(cluster.slices(V4, CART)) == ["cart-1"]
    assert list(map(str, cluster.service_cidrs(V4))) == ["10.112.0.0/16"]
    assert (Pod("shop", "client", ("10.64.3.50",), "kestrel"),) == snapshot.pods
    assert snapshot.remarks == ()
    assert cluster.synced(*Kind)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            pod("a", "10.64.3.50", "fd40::50"),
            (Pod("shop", "a", ("10.64.3.50", "fd40::50"), "kestrel"),),
            id="two-families",
        ),
        pytest.param(
            {"metadata": {"name": "a"}}, (Pod("default", "a", ()),), id="as-short-as-can-be"
        ),
        pytest.param(
            {"metadata": {"name": "a"}, "spec": {}, "status": {"podIP": "10.64.3.50"}},
            (Pod("default", "a", ("10.64.3.50",)),),
            id="without-the-list-of-addresses",
        ),
        pytest.param(
            {"metadata": {"name": "a"}, "status": {"podIP": "nonsense", "podIPs": None}},
            (Pod("default", "a", ()),),
            id="an-address-that-is-none",
        ),
        pytest.param({"metadata": {}}, (), id="without-a-name"),
        pytest.param({"metadata": {"name": "a"}, "status": 7}, (), id="no-pod-at-all"),
    ],
)
def test_pods(tmp_path: Path, body: Document, expected: tuple[Pod, ...]) -> None:
    assert expected == found(tmp_path, *SHOP[:3], of_kind("Pod", body)).pods


def test_external_ips_count_only_where_they_are_allowed(tmp_path: Path) -> None:
    write(tmp_path, SHOP)
    addresses = [
        from_manifests([str(tmp_path)], Viewpoint("kestrel", allow_external_ips=allowed))
        .cluster.service_ports(V4, CART)[0]
        .external_ips
        for allowed in (True, False)
    ]
    assert addresses == [("198.18.0.5",), ()]


def test_a_broken_file_beside_a_good_one_is_remarked(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("kind: [\n")
    snapshot = found(tmp_path, *SHOP)
    (remark,) = snapshot.remarks
    assert remark.startswith(f"skipped: {tmp_path}/bad.yaml:2:1: ")
    assert [port.name for port in snapshot.cluster.service_ports(V4, CART)] == ["http"]


def test_what_an_object_says_in_vain_is_remarked(tmp_path: Path) -> None:
    odd = service({"externalIPs": ["10.1.2"]})
    snapshot = found(tmp_path, SHOP[0], of_kind("Service", odd), SHOP[2])
    expected = "Service shop/cart: spec.externalIPs: '10.1.2' is not an IP address"
    assert (expected,) == snapshot.remarks


def test_an_object_that_stands_twice_is_remarked(tmp_path: Path) -> None:
    other = write(tmp_path, [of_kind("Service", service())], name="another.yaml")
    snapshot = found(tmp_path, *SHOP)
    used = f"{tmp_path}/cluster.yaml"
    (remark,) = snapshot.remarks
    assert remark.startswith(f"Service shop/cart is in {other}:1 and in {used}:")
    assert remark.endswith(": the latter counts")
    assert snapshot.cluster.service_ports(V4, CART)[0].node_port == NODE_PORT


def test_what_is_missing_is_remarked(tmp_path: Path) -> None:
    snapshot = found(tmp_path, of_kind("Service", service()))
    assert snapshot.remarks == (
        "no Node kestrel in the manifests: its addresses and zone are not known",
        "no EndpointSlices in the manifests: no Service has endpoints",
    )


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OperatorError) as caught:
        from_manifests([str(tmp_path / "nowhere")], HERE)
    expected = f"the manifests in {tmp_path}/nowhere cannot be read: No such file or directory"
    assert expected == str(caught.value)


# --- an API server ----------------------------------------------------------------------------


def filled(server: FakeApiServer, documents: Sequence[Document] = SHOP) -> FakeApiServer:
    for document in documents:
        server.put(document)
    return server


async def test_an_api_server() -> None:
    async with FakeApiServer() as server:
        filled(server).put(of_kind("Pod", pod("other", "10.64.3.51")))
        snapshot = await from_api_server(
            Access(server=server.url), Viewpoint(hostname="kestrel", pod="shop/client")
        )
    cluster = snapshot.cluster
    assert (cluster.node_name, cluster.zone) == ("kestrel", "z-east")
    assert [port.name for port in cluster.service_ports(V4, CART)] == ["http"]
    assert list(cluster.slices(V4, CART)) == ["cart-1"]
    assert list(map(str, cluster.service_cidrs(V4))) == ["10.112.0.0/16"]
    assert (Pod("shop", "client", ("10.64.3.50",), "kestrel"),) == snapshot.pods
    assert snapshot.remarks == ()


async def test_pods_are_asked_for_only_when_one_is_named() -> None:
    async with FakeApiServer() as server:
        filled(server)
        snapshot = await from_api_server(Access(server=server.url), HERE)
        paths = {request.path for request in server.requests}
    assert (snapshot.pods, "/api/v1/pods" in paths) == ((), False)


async def test_the_node_of_the_pod_is_looked_from() -> None:
    async with FakeApiServer() as server:
        filled(server).put(of_kind("Node", node_named("heron", "198.51.100.20")))
        server.put(of_kind("Pod", pod("far", "10.65.7.99", node="heron")))
        wanted = Viewpoint(hostname="laptop", pod="far")
        snapshot = await from_api_server(Access(server=server.url), wanted)
    assert snapshot.cluster.node_name == "heron"
    assert snapshot.cluster.node is not None
    assert snapshot.cluster.node.ips == ("198.51.100.20",)


async def test_external_ips_of_an_api_server_count_only_where_they_are_allowed() -> None:
    async with FakeApiServer() as server:
        wanted = Viewpoint("kestrel", allow_external_ips=False)
        snapshot = await from_api_server(Access(server=filled(server).url), wanted)
    assert snapshot.cluster.service_ports(V4, CART)[0].external_ips == ()


async def test_older_clusters_have_no_service_cidrs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubeproxy.tools.snapshot.OPTIONAL_WAIT", 0.05)
    async with FakeApiServer() as server:
        server.faults.status("/servicecidrs", 404, times=None)
        snapshot = await from_api_server(Access(server=filled(server).url), HERE)
    assert [port.name for port in snapshot.cluster.service_ports(V4, CART)] == ["http"]
    expected = "ServiceCIDR objects could not be read: they count as absent"
    assert (expected,) == snapshot.remarks


async def test_no_answer_without_endpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubeproxy.tools.snapshot.API_SERVER_WAIT", 0.05)
    async with FakeApiServer() as server:
        server.faults.status("/endpointslices", 403, times=None)
        with pytest.raises(ApiServerError) as caught:
            await from_api_server(Access(server=filled(server).url), HERE)
        expected = f"{server.url} did not list all Services and EndpointSlices within 0.05 s"
    assert expected == str(caught.value)


async def test_a_server_that_refuses() -> None:
    async with FakeApiServer() as server:
        server.faults.status("/nodes", 403, message="nodes is forbidden")
        with pytest.raises(ApiServerError, match="nodes is forbidden"):
            await from_api_server(Access(server=server.url), HERE)


async def test_a_server_that_is_not_there() -> None:
    async with FakeApiServer() as server:
        url = server.url
    with pytest.raises(ApiServerError, match="connection refused"):
        await from_api_server(Access(server=url), HERE)


class ScriptedServer:
    """A source that delivers the events of a script, and then ends with a mistake, if any."""

    script: Sequence[Event] = ()
    mistake: Exception | None = None

    def __init__(self, access: Access, settings: object) -> None:
        del access, settings

    async def get_json(self, path: str, query: object, type_: Callable[[], object]) -> object:
        del path, query
        return type_()

    async def run(self, deliver: Callable[[Event], None]) -> None:
        for event in self.script:
            deliver(event)
        if self.mistake is not None:
            raise self.mistake
        await asyncio.Event().wait()


NOWHERE = Access(server="http://127.0.0.1:1")


def events_of(*documents: Document) -> list[Event]:
    """All events of a cluster that has these objects and no others."""
    events: list[Event] = []
    for kind in Kind:
        events.append(Reset(kind))
        events += [Upsert(kind, convert(kind, d)) for d in documents if d["kind"] == kind.value]
        events.append(Synced(kind))
    return events


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> type[ScriptedServer]:
    class Server(ScriptedServer):
        pass

    monkeypatch.setattr("kubeproxy.cluster.watch.apiserver.ApiServer", Server)
    return Server


async def test_what_goes_while_we_wait_is_gone(scripted: type[ScriptedServer]) -> None:
    documents = (of_kind("Node", kestrel()), of_kind("Service", everywhere()))
    scripted.script = [
        *events_of(*documents)[:-1],
        Delete(Kind.SERVICE, CART),
        Synced(list(Kind)[-1]),
    ]
    snapshot = await from_api_server(NOWHERE, HERE)
    assert snapshot.cluster.service_ports(V4, CART) == ()


async def test_what_an_object_of_the_server_says_in_vain_is_remarked(
    scripted: type[ScriptedServer],
) -> None:
    scripted.script = events_of(
        of_kind("EndpointSlice", endpoint_slice("", {"addressType": "FQDN"}))
    )
    snapshot = await from_api_server(NOWHERE, HERE)
    expected = "EndpointSlice shop/cart-1: addressType 'FQDN' is not proxied"
    assert (expected,) == snapshot.remarks


async def test_our_own_mistakes_are_not_hidden(scripted: type[ScriptedServer]) -> None:
    scripted.mistake = RuntimeError("a mistake of ours")
    with pytest.raises(ExceptionGroup, match="TaskGroup") as caught:
        await from_api_server(NOWHERE, HERE)
    assert caught.group_contains(RuntimeError, match="a mistake of ours")
