"""What is not read of manifests, and what is said about it."""

import pytest

from kubeproxy.cluster.manifests.documents import parse
from kubeproxy.cluster.manifests.skipped import other_kinds, skipped


def document(version: str, kind: str, metadata: str = "{name: cart, namespace: shop}") -> str:
    return f"apiVersion: {version}\nkind: {kind}\nmetadata: {metadata}\n"


@pytest.mark.parametrize(
    ("version", "kind", "expected"),
    [
        pytest.param("v1", "Service", [], id="a-service"),
        pytest.param("discovery.k8s.io/v1", "EndpointSlice", [], id="a-slice"),
        pytest.param("v1", "Pod", [], id="pods-are-read-by-explain"),
        pytest.param(
            "v1",
            "Endpoints",
            ["endpoints are read from EndpointSlices alone, discovery.k8s.io/v1"],
            id="endpoints",
        ),
        pytest.param(
            "discovery.k8s.io/v1beta1",
            "EndpointSlice",
            ["its apiVersion is discovery.k8s.io/v1beta1, and discovery.k8s.io/v1 is read"],
            id="an-old-slice",
        ),
        pytest.param(
            "v1", "service", ["there is no such kind; did you mean Service?"], id="lower-case"
        ),
        pytest.param(
            "discovery.k8s.io/v1",
            "EndpointSlices",
            ["there is no such kind; did you mean EndpointSlice?"],
            id="misspelled",
        ),
        pytest.param("apps/v1", "Deployment", [""], id="another-kind"),
    ],
)
def test_what_is_skipped_and_why(version: str, kind: str, expected: list[str]) -> None:
    found = skipped(parse(document(version, kind), "a.yaml"))
    assert expected == [each.why for each in found]


def test_it_is_named_with_its_place() -> None:
    text = document("v1", "Endpoints") + "---\n" + document("v1", "Services", "{name: dns}")
    why = "endpoints are read from EndpointSlices alone, discovery.k8s.io/v1"
    assert list(map(str, skipped(parse(text, "a.yaml")))) == [
        f"a.yaml:1: Endpoints shop/cart is skipped: {why}",
        "a.yaml:5: Services dns is skipped: there is no such kind; did you mean Service?",
    ]


def test_one_without_a_name() -> None:
    (found,) = skipped(parse(document("v1", "Services", "7"), "a.yaml"))
    assert str(found).startswith("a.yaml:1: Services is skipped: ")


def test_other_kinds_are_named_once() -> None:
    kinds = (("v1", "Secret"), ("apps/v1", "Deployment"), ("v1", "Secret"), ("v1", "Services"))
    text = "---\n".join(document(*each) for each in kinds)
    assert other_kinds(skipped(parse(text))) == ["Deployment", "Secret"]
