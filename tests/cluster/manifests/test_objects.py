import pytest

from kubeproxy.cluster.events import Delete, Event, Reset, Synced, Upsert
from kubeproxy.cluster.manifests.documents import Body, Document
from kubeproxy.cluster.manifests.objects import (
    Duplicate,
    ManifestObject,
    decode_documents,
    events_between,
    first_events,
    merge,
)
from kubeproxy.cluster.objects.meta import Kind, ObjectKey

SERVICE = ("Service", "v1")
SLICE = ("EndpointSlice", "discovery.k8s.io/v1")
NODE = ("Node", "v1")
CIDR = ("ServiceCIDR", "networking.k8s.io/v1")


def document(kind: tuple[str, str], body: Body, file: str = "a.yaml", line: int = 1) -> Document:
    return Document(*kind, body, line, file)


def named(kind: tuple[str, str], name: str, **spec: object) -> Document:
    return document(kind, {"metadata": {"name": name}, "spec": spec})


def selected(documents: list[Document], node_name: str | None = None) -> list[str]:
    objects, _ = merge(decode_documents(documents)[0], node_name)
    return [f"{kind.value} {key}" for kind, key in objects]


PROXY_LABEL = {"service.kubernetes.io/service-proxy-name": ""}
HEADLESS_LABEL = {"service.kubernetes.io/headless": ""}


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        pytest.param([named(SERVICE, "a")], ["Service default/a"], id="namespace-is-default"),
        pytest.param(
            [document(SERVICE, {"metadata": {"name": "a", "namespace": None}})],
            ["Service default/a"],
            id="a-null-namespace-is-default-too",
        ),
        pytest.param(
            [document(SERVICE, {"metadata": {"name": "a", "namespace": "b"}})],
            ["Service b/a"],
            id="a-service-in-its-namespace",
        ),
        pytest.param(
            [document(NODE, {"metadata": {"name": "n", "namespace": "b"}})],
            ["Node n"],
            id="a-node-has-no-namespace",
        ),
        pytest.param(
            [named(CIDR, "c", cidrs=["10.96.0.0/16"])], ["ServiceCIDR c"], id="a-service-cidr"
        ),
        pytest.param([named(("Pod", "v1"), "p")], [], id="other-kinds-are-left-out"),
        pytest.param(
            [named(("Service", "serving.knative.dev/v1"), "k")],
            [],
            id="other-groups-with-the-same-kind-are-left-out",
        ),
        pytest.param(
            [document(SERVICE, {"metadata": {"name": "a", "labels": PROXY_LABEL}})],
            [],
            id="a-service-of-another-proxy-is-left-out",
        ),
        pytest.param(
            [named(SERVICE, "a", clusterIP="None")], [], id="a-headless-service-is-left-out"
        ),
        pytest.param(
            [named(SERVICE, "a", clusterIPs=["None"])], [], id="headless-by-the-plural-field"
        ),
        pytest.param(
            [document(SLICE, {"metadata": {"name": "a", "labels": HEADLESS_LABEL}})],
            [],
            id="a-slice-of-a-headless-service-is-left-out",
        ),
        pytest.param([named(SLICE, "a")], ["EndpointSlice default/a"], id="any-other-slice"),
    ],
)
def test_what_is_selected(documents: list[Document], expected: list[str]) -> None:
    assert expected == selected(documents)


@pytest.mark.parametrize(
    ("node_name", "expected"),
    [
        pytest.param("a", ["Node a"], id="only-our-own"),
        pytest.param("c", [], id="ours-is-not-there"),
        pytest.param(None, ["Node a", "Node b"], id="all-when-ours-is-not-known"),
    ],
)
def test_nodes_that_are_selected(node_name: str | None, expected: list[str]) -> None:
    assert expected == selected([named(NODE, "a"), named(NODE, "b")], node_name)


def test_what_cannot_be_understood_is_a_problem_and_leaves_the_others() -> None:
    objects, problems = decode_documents(
        [
            named(SERVICE, "a"),
            document(SERVICE, {"metadata": {"name": "b"}, "spec": {"ports": 80}}, "x.yaml", 7),
            document(SERVICE, {"metadata": {}}, "x.yaml", 9),
            document(SERVICE, {}, "x.yaml", 11),
            named(SERVICE, "c"),
        ]
    )
    assert [placed.object.metadata.name for placed in objects] == ["a", "c"]
    assert [str(problem).partition(" cannot")[0] for problem in problems] == [
        "x.yaml:7:1: the Service default/b",
        "x.yaml:9:1: the Service",
        "x.yaml:11:1: the Service",
    ]


def test_what_cannot_be_understood_any_more_stays_what_it_was() -> None:
    before, _ = decode_documents([named(SERVICE, "a", type="NodePort")])
    objects, problems = decode_documents([named(SERVICE, "a", type=7)], before)
    assert before == objects
    assert len(problems) == 1


def test_when_not_even_a_name_can_be_read_all_of_that_kind_stay() -> None:
    before, _ = decode_documents([named(SERVICE, "a"), named(SERVICE, "b"), named(NODE, "n")])
    objects, _ = decode_documents([document(SERVICE, {}), named(SERVICE, "b", type="X")], before)
    assert [placed.identity for placed in objects] == [before[1].identity, before[0].identity]
    assert objects[0].object != before[1].object


def test_of_two_objects_with_one_name_the_last_counts_and_both_places_are_named() -> None:
    [first], _ = decode_documents([document(SERVICE, {"metadata": {"name": "a"}}, "a.yaml", 3)])
    body: Body = {"metadata": {"name": "a"}, "spec": {"type": "NodePort"}}
    [second], _ = decode_documents([document(SERVICE, body, "b.yaml", 5)])
    objects, duplicates = merge([first, second])
    key = ObjectKey("default", "a")
    assert objects == {(Kind.SERVICE, key): second.object}
    assert duplicates == [Duplicate(Kind.SERVICE, key, used="b.yaml:5", ignored="a.yaml:3")]


def test_the_last_counts_even_if_it_is_one_that_is_not_selected() -> None:
    assert selected([named(SERVICE, "a"), named(SERVICE, "a", clusterIP="None")]) == []


def service(name: str, **spec: object) -> ManifestObject:
    return decode_documents([named(SERVICE, name, **spec)])[0][0]


def test_the_first_events_have_every_kind_from_reset_to_synced() -> None:
    placed = service("a")
    events = first_events({placed.identity: placed.object})
    expected: list[Event] = []
    for kind in Kind:
        upserts = [Upsert(kind, placed.object)] if kind is Kind.SERVICE else []
        expected += [Reset(kind), *upserts, Synced(kind)]
    assert expected == events


def test_later_events_are_the_differences_and_first_what_is_gone() -> None:
    same, gone, old, new = service("a"), service("b"), service("c"), service("c", type="NodePort")
    added = service("d")
    events = events_between(
        {placed.identity: placed.object for placed in (same, gone, old)},
        {placed.identity: placed.object for placed in (same, new, added)},
    )
    assert events == [
        Delete(Kind.SERVICE, ObjectKey("default", "b")),
        Upsert(Kind.SERVICE, new.object),
        Upsert(Kind.SERVICE, added.object),
    ]
