"""What we ask of the API server is what the role lets us ask.

The role is the cluster's own, `system:node-proxier`, which every API server makes at its start.
"""

from collections.abc import AsyncIterator

import msgspec
import pytest

from app.test_daemon import Rig
from deploy.objects import ClusterRoleBinding, ServiceAccount, daemon_set
from deploy.overlays import overlay
from fakes.apiserver import FakeApiServer, Request
from kubeproxy.cluster.client.access import Access
from kubeproxy.cluster.watch.apiserver import ApiServer, WatchSettings
from kubeproxy.serve.events.event import (
    Event,
    Occurrence,
    create,
    service_health_port_failed,
    starting,
    update,
)
from kubeproxy.serve.events.event import Subject as About
from kubeproxy.serve.events.recorder import Recorder
from waiting import until
from world import NODE_NAME, endpoint_slice, kestrel, service

# Upstream's role, as `kubectl get clusterrole system:node-proxier -o yaml` shows it.
ROLE = {
    ("", "services"): {"list", "watch"},
    ("", "endpoints"): {"list", "watch"},
    ("", "nodes"): {"get", "list", "watch"},
    ("discovery.k8s.io", "endpointslices"): {"list", "watch"},
    ("networking.k8s.io", "servicecidrs"): {"list", "watch"},
    ("", "events"): {"create", "patch", "update"},
    ("events.k8s.io", "events"): {"create", "patch", "update"},
}
VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}

Permission = tuple[str, str, str]
"""A group, a resource and a verb."""


def permission(method: str, path: str, *, watch: bool = False) -> Permission:
    """What a request takes, as the API server reads it."""
    _, root, *parts = path.split("/")
    group = parts.pop(0) if root == "apis" else ""
    parts.pop(0)  # the version
    if parts[0] == "namespaces":
        parts = parts[2:]
    resource, *name = parts
    if method != "GET":
        return group, resource, VERBS[method]
    return group, resource, "watch" if watch else "get" if name else "list"


def asked(request: Request) -> Permission:
    watch = request.query.get("watch") == "true"
    return permission(request.method, request.path, watch=watch)


def refused(wanted: set[Permission]) -> set[Permission]:
    return {each for each in wanted if each[2] not in ROLE.get(each[:2], set())}


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with FakeApiServer() as server:
        rig = Rig(server)
        rig.put("Node", kestrel())
        rig.put("Service", service())
        rig.put("EndpointSlice", endpoint_slice("L1"))
        yield rig


@pytest.mark.parametrize("watch_list", [True, False])
async def test_a_run_asks_for_nothing_that_the_role_lacks(rig: Rig, watch_list: bool) -> None:
    source = ApiServer(
        Access(server=rig.server.url), WatchSettings(node_name=NODE_NAME, watch_list=watch_list)
    )
    rig.setup = msgspec.structs.replace(
        rig.setup, source=source, recorder=Recorder(NODE_NAME, source.write)
    )
    async with rig.running():
        await until(lambda: rig.backends() == ["10.64.3.11"])
        await rig.server.wait_watchers(4)
        await until(lambda: bool(rig.server.objects("Event")))
        asked_before = len(rig.server.requests)
        rig.server.faults.fail_streams(410)  # what was known is too old: begin again
        await until(lambda: len(rig.server.requests) >= asked_before + 4)
    wanted = {asked(request) for request in rig.server.requests}
    assert refused(wanted) == set()
    kinds = {resource for _, resource, _ in wanted}
    assert {"services", "endpointslices", "nodes", "servicecidrs", "events"} == kinds


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(starting(NODE_NAME, "nftables"), id="of-a-node"),
        pytest.param(
            service_health_port_failed(
                NODE_NAME, About("Service", "cart", "shop"), 30000, OSError("in use")
            ),
            id="of-a-service",
        ),
    ],
)
def test_events_and_their_series_stay_within_the_role(event: Event) -> None:
    occurrence = Occurrence(event, first=1, last=2, count=2)
    requests = (create(occurrence, "host"), update(occurrence))
    wanted = {permission(request.method, request.path) for request in requests}
    group = "events.k8s.io"
    assert {(group, "events", "create"), (group, "events", "patch")} == wanted
    assert refused(wanted) == set()


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        pytest.param("GET", "/api/v1/services/cart", ("", "services", "get"), id="get"),
        pytest.param("DELETE", "/api/v1/nodes/a", ("", "nodes", "delete"), id="delete"),
        pytest.param(
            "PUT", "/api/v1/namespaces/a/pods/b", ("", "pods", "update"), id="in-a-namespace"
        ),
    ],
)
def test_what_the_role_lacks_is_noticed(method: str, path: str, expected: Permission) -> None:
    assert expected == permission(method, path)
    assert refused({expected}) == {expected}


def test_the_account_of_the_pods_is_bound_to_the_role_and_to_no_other() -> None:
    found = overlay("nftables")
    ((_, name),) = (key for key in found if key[0] == "ServiceAccount")
    account = msgspec.convert(found["ServiceAccount", name], ServiceAccount)
    ((_, bound),) = (key for key in found if key[0].endswith("Binding"))
    binding = msgspec.convert(found["ClusterRoleBinding", bound], ClusterRoleBinding)
    assert (binding.role_ref.kind, binding.role_ref.name) == ("ClusterRole", "system:node-proxier")
    subjects = [(each.kind, each.namespace, each.name) for each in binding.subjects]
    expected = ("ServiceAccount", account.metadata.namespace, account.metadata.name)
    assert [expected] == subjects
    assert account.metadata.name == daemon_set(found).pod.service_account_name
    assert not any(key[0].endswith("Role") for key in found)
