"""Which proxy runs on which node."""

import msgspec
import pytest

from fakes import kubectl
from kubeproxy.base.errors import OperatorError
from kubeproxy.tools.kubectl.proxies import (
    Kind,
    Node,
    Pod,
    Proxy,
    askable,
    named,
    on_nodes,
    proxies,
    some,
)


def pod(name: str, node: str, **more: object) -> Pod:
    return msgspec.convert(kubectl.pod(name, node, **more), Pod)


def node(name: str, ready: str = "True", **labels: str) -> Node:
    found = kubectl.node(name, ready)
    meta = {"name": name, "labels": labels}
    return msgspec.convert({**found, "metadata": meta}, Node)


WAITING = {"phase": "Pending", "containerStatuses": []}
CRASHING = {
    "phase": "Running",
    "containerStatuses": [
        {"name": "kube-proxy", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    ],
}


def test_one_of_several_pods_counts() -> None:
    leaving = {
        "name": "b",
        "namespace": "kube-system",
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    }
    found = proxies(
        [
            pod("a", "kestrel", status=WAITING),
            pod("b", "kestrel", metadata=leaving),
            pod("c", "kestrel"),
            pod("d", "heron", labels={"k8s-app": "kube-proxy"}),
            pod("e", ""),
        ],
        [],
    )
    assert [(each.node, each.pod, each.kind) for each in found] == [
        ("heron", "d", Kind.GO),
        ("kestrel", "c", Kind.OURS),
    ]
    assert [each.node for each in askable(found)] == ["kestrel"]


def test_selected_pods_are_ours() -> None:
    labels = {"k8s-app": "kube-proxy"}
    (found,) = proxies([pod("a", "kestrel", labels=labels)], [], all_ours=True)
    assert found.kind is Kind.OURS


def test_nodes_without_a_proxy() -> None:
    windows = {"kubernetes.io/os": "windows"}
    found = proxies([], [node("osprey"), node("hobby", "False"), node("w", **windows)])
    assert [(each.node, each.why) for each in found] == [
        ("hobby", "no pod of kube-proxy is on this node, and the Node is not Ready"),
        ("osprey", "no pod of kube-proxy is on this node"),
    ]


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (WAITING, "pod a does not run: Pending"),
        (CRASHING, "pod a does not run: CrashLoopBackOff"),
        ({}, "pod a does not run: no state"),
    ],
)
def test_why_a_pod_cannot_be_asked(status: object, why: str) -> None:
    (found,) = proxies([pod("a", "kestrel", status=status)], [node("kestrel")])
    assert found.why == why


def test_the_container_is_known_by_its_name_or_is_the_first() -> None:
    two = {"nodeName": "n", "containers": [{"name": "x"}, {"name": "kube-proxy", "image": "i"}]}
    other = {"nodeName": "m", "containers": [{"name": "proxy"}]}
    none = {"nodeName": "o"}
    pods = [pod(each["nodeName"], "", spec=each) for each in (two, other, none)]  # type: ignore[arg-type]  # it is a name
    assert [each.container for each in proxies(pods, [])] == ["proxy", "kube-proxy", ""]


@pytest.mark.parametrize(
    ("image", "tag"),
    [
        ("registry.example:5000/a/kubeproxy:0.1.0", "0.1.0"),
        ("registry.example/kubeproxy@sha256:00", ""),
        ("kubeproxy:1@sha256:00", "1"),
        ("registry.example:5000/kubeproxy", ""),
    ],
)
def test_the_tag_of_an_image(image: str, tag: str) -> None:
    assert Proxy("n", Kind.OURS, image=image).tag == tag


def test_nodes_that_are_wanted() -> None:
    found = proxies([pod("a", "kestrel"), pod("b", "heron")], [])
    assert [each.node for each in on_nodes(found, ["kestrel", "kestrel"])] == ["kestrel"]
    with pytest.raises(OperatorError, match="on node none: nodes are heron, kestrel"):
        on_nodes(found, ["none"])
    with pytest.raises(OperatorError, match="there is none on any node"):
        on_nodes([], ["none"])


@pytest.mark.parametrize(("text", "expected"), [("a", ("default", "a")), ("b/a", ("b", "a"))])
def test_names_of_pods(text: str, expected: tuple[str, str]) -> None:
    assert named(text) == expected


@pytest.mark.parametrize("text", ["", "a/", "/a", "a/b/c"])
def test_what_is_no_name_of_a_pod(text: str) -> None:
    with pytest.raises(OperatorError, match="give"):
        named(text)


def test_many_names_are_counted() -> None:
    assert some([str(number) for number in range(12)]).endswith("8, 9 and 2 more")


def test_addresses() -> None:
    assert pod("a", "n").addresses == ("192.0.2.10",)
