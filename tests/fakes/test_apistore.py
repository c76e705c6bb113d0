import msgspec
import pytest

from fakes.apierrors import ApiError
from fakes.apiresources import RESOURCE_OF_KIND
from fakes.apiselectors import parse_fields, parse_labels
from fakes.apistore import (
    FIRST_VERSION,
    Body,
    Selection,
    Store,
    decode_body,
    event_for,
)

SERVICE = RESOURCE_OF_KIND["Service"]
NODE = RESOURCE_OF_KIND["Node"]

OURS = Selection(
    labels=parse_labels("!service.kubernetes.io/service-proxy-name"),
    fields=parse_fields("spec.clusterIP!=None", ["spec.clusterIP"]),
)
FOREIGN = {"service.kubernetes.io/service-proxy-name": "other"}


def service(name: str, **metadata: object) -> Body:
    return {"metadata": {"name": name, **metadata}, "spec": {"clusterIP": "10.96.0.1"}}


def new_store() -> Store:
    return Store(lambda: "2026-01-01T00:00:00Z")


def names(
    store: Store, selection: Selection | None = None, version: int | None = None
) -> list[str]:
    page = store.list(SERVICE, selection or Selection(), version=version)
    return [stored.key[1] for stored in page.items]


def test_every_change_of_any_resource_gets_the_next_version() -> None:
    store = new_store()
    versions = [
        store.put(SERVICE, service("a")).version,
        store.put(NODE, {"metadata": {"name": "n"}}).version,
        store.put(SERVICE, service("a")).version,
        store.delete(SERVICE, ("default", "a")).version,
    ]
    assert [FIRST_VERSION + n for n in (1, 2, 3, 4)] == versions


def test_a_stored_object_has_what_the_server_adds() -> None:
    store = new_store()
    store.put(SERVICE, service("a"))
    store.put(SERVICE, service("a", uid="mine", labels={"x": "y"}))
    stored = store.get(SERVICE, ("default", "a"))
    assert stored is not None
    assert decode_body(SERVICE, stored) == {
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {
            "name": "a",
            "namespace": "default",
            "labels": {"x": "y"},
            "uid": f"00000000-0000-4000-8000-{FIRST_VERSION + 1:012x}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "resourceVersion": str(FIRST_VERSION + 2),
        },
        "spec": {"clusterIP": "10.96.0.1"},
    }


def test_a_changed_body_does_not_change_the_stored_object() -> None:
    store = new_store()
    body = service("a")
    store.put(SERVICE, body)
    body["spec"] = {"clusterIP": "None"}
    assert names(store, OURS) == ["a"]


def test_resources_without_namespaces_have_none() -> None:
    store = new_store()
    store.put(NODE, {"metadata": {"name": "n"}})
    assert store.get(NODE, ("", "n")) is not None


def test_objects_need_a_name() -> None:
    with pytest.raises(ApiError) as caught:
        new_store().put(SERVICE, {"metadata": {}})
    assert caught.value.code == 422


def test_what_does_not_exist_cannot_be_deleted() -> None:
    with pytest.raises(ApiError) as caught:
        new_store().delete(SERVICE, ("default", "a"))
    assert caught.value.code == 404


def test_lists_are_in_order_of_namespace_and_name_and_can_be_of_one_namespace() -> None:
    store = new_store()
    for name, namespace in [("b", "one"), ("a", "two"), ("c", "one")]:
        store.put(SERVICE, service(name, namespace=namespace))
    assert names(store) == ["b", "c", "a"]
    assert names(store, Selection(namespace="one")) == ["b", "c"]


def test_pages_follow_each_other_at_the_version_of_the_first() -> None:
    store = new_store()
    for name in "abcde":
        store.put(SERVICE, service(name))
    first = store.list(SERVICE, Selection(), limit=2)
    store.delete(SERVICE, ("default", "c"))
    store.put(SERVICE, service("d", labels={"new": "yes"}))
    store.put(SERVICE, service("bb"))
    second = store.list(SERVICE, Selection(), version=first.version, after=first.next_key, limit=2)
    third = store.list(SERVICE, Selection(), version=first.version, after=second.next_key, limit=2)
    keys = [[stored.key[1] for stored in page.items] for page in (first, second, third)]
    assert keys == [["a", "b"], ["c", "d"], ["e"]]
    assert [page.remaining for page in (first, second, third)] == [3, 1, 0]
    assert third.next_key is None
    assert second.items[1].labels == {}


def test_the_past_can_be_listed_until_it_is_compacted() -> None:
    store = new_store()
    past = store.put(SERVICE, service("a")).version
    store.delete(SERVICE, ("default", "a"))
    assert names(store, version=past) == ["a"]
    assert names(store) == []
    store.compact()
    with pytest.raises(ApiError) as caught:
        names(store, version=past)
    assert (caught.value.code, caught.value.reason) == (410, "Expired")


def test_the_history_of_one_resource_since_a_version() -> None:
    store = new_store()
    first = store.put(SERVICE, service("a")).version
    store.put(NODE, {"metadata": {"name": "n"}})
    change = store.put(SERVICE, service("b"))
    assert [change] == store.changes_since(SERVICE, first)


def test_compaction_leaves_the_present_version_watchable() -> None:
    store = new_store()
    store.put(SERVICE, service("a"))
    store.compact()
    assert store.changes_since(SERVICE, store.version) == []
    with pytest.raises(ApiError, match=rf"too old resource version: 1 \({store.version}\)"):
        store.changes_since(SERVICE, 1)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(None, {}, "ADDED", id="created"),
        pytest.param({}, {}, "MODIFIED", id="changed"),
        pytest.param({}, None, "DELETED", id="deleted"),
        pytest.param({}, FOREIGN, "DELETED", id="left-the-selection"),
        pytest.param(FOREIGN, {}, "ADDED", id="entered-the-selection"),
        pytest.param(FOREIGN, FOREIGN, None, id="changed-outside-of-the-selection"),
        pytest.param(FOREIGN, None, None, id="deleted-outside-of-the-selection"),
        pytest.param(None, FOREIGN, None, id="created-outside-of-the-selection"),
    ],
)
def test_what_a_watcher_sees_of_a_change(
    before: dict[str, str] | None, after: dict[str, str] | None, expected: str | None
) -> None:
    store = new_store()
    if before is not None:
        store.put(SERVICE, service("a", labels=before))
    if after is None:
        change = store.delete(SERVICE, ("default", "a"))
    else:
        change = store.put(SERVICE, service("a", labels=after))
    event = event_for(change, OURS)
    assert expected == (event and event[0])
    if event is not None:
        metadata = msgspec.json.decode(event[1])["metadata"]
        assert str(change.version) == metadata["resourceVersion"]
        assert metadata["labels"] == {}
