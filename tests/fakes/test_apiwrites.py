import pytest

from fakes.apierrors import ApiError
from fakes.apiresources import RESOURCE_OF_KIND, Target
from fakes.apistore import Body, Store
from fakes.apiwrites import (
    MERGE_PATCH,
    STRATEGIC_PATCH,
    body_to_store,
    merge,
    merge_strategic,
    same,
)

SERVICE = RESOURCE_OF_KIND["Service"]
SERVICES = Target(SERVICE, "default")
ONE = Target(SERVICE, "default", "a")
EVENTS = Target(RESOURCE_OF_KIND["Event"], "default")
EVENT: Body = {
    "metadata": {"name": "e"},
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "reportingController": "kube-proxy",
    "reportingInstance": "kube-proxy-n1",
    "action": "StartKubeProxy",
    "reason": "Starting",
}


@pytest.fixture
def store() -> Store:
    store = Store(lambda: "2026-01-01T00:00:00Z")
    store.put(SERVICE, {"metadata": {"name": "a"}, "spec": {"clusterIP": "10.96.0.1"}})
    return store


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param({"a": {"x": 3}}, {"a": {"x": 3, "y": 2}, "l": [1]}, id="objects-merge"),
        pytest.param({"a": {"x": None}}, {"a": {"y": 2}, "l": [1]}, id="null-removes"),
        pytest.param({"l": [2]}, {"a": {"x": 1, "y": 2}, "l": [2]}, id="lists-replace"),
        pytest.param({"l": {"n": None}}, {"a": {"x": 1, "y": 2}, "l": {}}, id="type-changes"),
    ],
)
def test_merge_patches(patch: Body, expected: Body) -> None:
    assert expected == merge({"a": {"x": 1, "y": 2}, "l": [1]}, patch)


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param({"ports": [{"port": 9}]}, [{"port": 9}], id="a-list-without-order-replaces"),
        pytest.param(
            {
                "$setElementOrder/ports": [{"port": 80}, {"port": 443}],
                "ports": [{"port": 443, "name": "tls"}],
            },
            [{"port": 80, "name": "http"}, {"port": 443, "name": "tls"}],
            id="an-ordered-list-merges-by-the-keys-of-its-order",
        ),
        pytest.param(
            {
                "$setElementOrder/ports": [{"port": 443}],
                "ports": [{"$patch": "delete", "port": 80}],
            },
            [{"port": 443, "name": "https"}],
            id="what-the-order-leaves-out-goes",
        ),
        pytest.param(
            {"$setElementOrder/ports": ["x", "y"], "ports": ["y"]},
            ["x", "y"],
            id="an-ordered-list-of-texts",
        ),
    ],
)
def test_strategic_patches_of_lists(patch: Body, expected: list[object]) -> None:
    current: Body = {"ports": [{"port": 80, "name": "http"}, {"port": 443, "name": "https"}]}
    assert {"ports": expected} == merge_strategic(current, patch)


def test_strategic_patches_merge_objects_and_remove_nulls() -> None:
    current: Body = {"a": {"x": 1, "y": 2}, "b": 1}
    assert merge_strategic(current, {"a": {"y": 3}, "b": None, "c": {"z": None}}) == {
        "a": {"x": 1, "y": 3},
        "c": {},
    }


@pytest.mark.parametrize(
    ("how", "target", "body", "code"),
    [
        pytest.param(
            ("POST", ""), SERVICES, {"metadata": {"name": "a"}}, 409, id="exists-already"
        ),
        pytest.param(("POST", ""), SERVICES, {"kind": "Node"}, 400, id="another-kind"),
        pytest.param(("POST", ""), SERVICES, {"metadata": {}}, 422, id="no-name"),
        pytest.param(("POST", ""), SERVICES, {}, 422, id="no-metadata"),
        pytest.param(
            ("POST", ""),
            SERVICES,
            {"metadata": {"name": "b", "namespace": "other"}},
            400,
            id="another-namespace-than-the-path",
        ),
        pytest.param(("POST", ""), ONE, {}, 405, id="create-at-the-path-of-an-object"),
        pytest.param(
            ("PUT", ""),
            ONE,
            {"metadata": {"name": "a", "resourceVersion": "1"}},
            409,
            id="replace-an-old-version",
        ),
        pytest.param(("PUT", ""), ONE, {"metadata": {"name": "b"}}, 400, id="another-name"),
        pytest.param(
            ("PUT", ""),
            Target(SERVICE, "default", "b"),
            {"metadata": {"name": "b"}},
            404,
            id="replace-what-is-not-there",
        ),
        pytest.param(("PATCH", "application/json-patch+json"), ONE, {}, 415, id="unknown-patch"),
        pytest.param(("POST", ""), EVENTS, EVENT | {"action": ""}, 422, id="event-without-action"),
        pytest.param(("POST", ""), EVENTS, EVENT | {"reason": "x" * 129}, 422, id="long-reason"),
        pytest.param(("POST", ""), EVENTS, EVENT | {"note": "x" * 1025}, 422, id="long-note"),
    ],
)
def test_writes_that_are_refused(
    store: Store, how: tuple[str, str], target: Target, body: Body, code: int
) -> None:
    with pytest.raises(ApiError) as caught:
        body_to_store(store, target, body, how)
    assert code == caught.value.code


def test_a_generated_name_begins_as_asked(store: Store) -> None:
    body = body_to_store(store, SERVICES, {"metadata": {"generateName": "web-"}}, ("POST", ""))
    assert body["metadata"] == {
        "generateName": "web-",
        "name": f"web-{store.version:05x}",
        "namespace": "default",
    }


@pytest.mark.parametrize("content_type", [MERGE_PATCH, STRATEGIC_PATCH])
def test_patches_change_what_they_name(store: Store, content_type: str) -> None:
    patch: Body = {"spec": {"type": "NodePort"}}
    body = body_to_store(store, ONE, patch, ("PATCH", content_type))
    assert body["spec"] == {"clusterIP": "10.96.0.1", "type": "NodePort"}
    assert not same(store, SERVICE, body)


def test_a_status_is_replaced_alone(store: Store) -> None:
    target = Target(SERVICE, "default", "a", "status")
    given: Body = {"metadata": {"name": "a"}, "spec": {}, "status": {"loadBalancer": {}}}
    body = body_to_store(store, target, given, ("PUT", ""))
    assert (body["spec"], body["status"]) == ({"clusterIP": "10.96.0.1"}, {"loadBalancer": {}})


def test_a_patch_of_nothing_changes_nothing(store: Store) -> None:
    body = body_to_store(store, ONE, {}, ("PATCH", MERGE_PATCH))
    assert same(store, SERVICE, body)
