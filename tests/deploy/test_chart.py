"""The Helm chart: the objects of the kustomize folders, and values that cannot go unnoticed."""

import re

import pytest

from deploy.chart import VALUES, helm, meaning, needs_helm, rendered
from deploy.overlays import ASKED, DEPLOY, Document, Found, overlay
from kubeproxy.base.version import VERSION

pytestmark = needs_helm

VALUES_OF: dict[str, dict[str, object]] = {
    "nftables": {},
    "iptables": {"mode": "iptables"},
    "ipvs": {"mode": "ipvs"},
    "monitoring": {"monitoring": {"enabled": True}},
    "trial": {"trial": True},
}


def only_of_helm(found: Found) -> Found:
    """The documents without what the chart has in addition."""
    less = meaning(found)
    template = _map(_map(less["DaemonSet", "kubeproxy"]["spec"])["template"])
    assert _map(template["metadata"]).pop("annotations")
    for each in _containers(_map(template["spec"])):
        del each["imagePullPolicy"]
    return less


def _map(value: object) -> Document:
    assert isinstance(value, dict)
    return value


def _containers(pod: Document) -> list[Document]:
    both = pod["initContainers"], pod["containers"]
    return [_map(each) for some in both if isinstance(some, list) for each in some]


def test_every_folder_has_values() -> None:
    assert ASKED.keys() == VALUES_OF.keys()


@pytest.mark.parametrize("folder", ASKED)
def test_it_installs_what_kustomize_does(folder: str) -> None:
    assert meaning(overlay(folder)) == only_of_helm(rendered(VALUES_OF[folder]))


def test_helm_finds_nothing_to_mend() -> None:
    done = helm("lint", "--strict", values=VALUES)
    assert done.returncode == 0, done.stdout + done.stderr


def test_its_version_is_ours() -> None:
    chart = (DEPLOY / "Chart.yaml").read_text()
    assert {VERSION} == {*re.findall(r"^(?:appV|v)ersion: (.*)$", chart, re.MULTILINE)}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param({"apiServer": ""}, "apiServer: Does not match", id="no-server"),
        pytest.param({"apiServer": "http://a:1"}, "apiServer: Does not match", id="no-https"),
        pytest.param({"clusterCIDR": ""}, "clusterCIDR: Does not match", id="no-pod-ranges"),
        pytest.param({"image": {"repository": ""}}, "image.repository: String length", id="image"),
        pytest.param({"image": {"repository": "a/b"}}, "image.tag: want the tag", id="no-tag"),
        pytest.param({"mode": "nft"}, 'mode must be one of the following: "nftables"', id="mode"),
        pytest.param({"nodeselector": {}}, "nodeselector is not allowed", id="misspelled"),
        pytest.param({"config": {"mode": "ipvs"}}, "config: Must not validate", id="mode-twice"),
        pytest.param(
            {"monitoring": {"scrape": "Pods"}}, "monitoring.scrape must be one of", id="scrape"
        ),
    ],
)
def test_a_value_that_is_wrong_is_named(values: dict[str, object], expected: str) -> None:
    done = helm("template", values={**VALUES, **values})
    assert done.returncode != 0
    assert expected in done.stderr


def test_fields_of_the_config_file_are_those_that_were_given() -> None:
    asked = {"nftables": {"healing": {"parts": "all"}}, "oomScoreAdj": -500}
    found = meaning(rendered({"config": asked}))
    config = _map(_map(found["ConfigMap", "kubeproxy"]["data"])["config.conf"])
    assert asked == {name: config[name] for name in asked}
    assert config["mode"] == "nftables"


def test_what_is_set_of_pods_is_in_the_daemon_set() -> None:
    digest = f"sha256:{'0' * 64}"
    found = rendered(
        {
            "image": {"repository": "a/b", "digest": digest, "pullSecrets": [{"name": "secret"}]},
            "resources": {"limits": {"memory": "1Gi"}},
            "priorityClassName": "system-cluster-critical",
            "nodeSelector": {"pool": "edge"},
            "podLabels": {"team": "net"},
            "podAnnotations": {"note": "here"},
            "tolerations": [{"key": "edge", "operator": "Exists"}],
        }
    )
    template = _map(_map(found["DaemonSet", "kubeproxy"]["spec"])["template"])
    pod = _map(template["spec"])
    assert [f"a/b@{digest}"] * 2 == [each["image"] for each in _containers(pod)]
    assert _map(_containers(pod)[1]["resources"])["limits"] == {"memory": "1Gi"}
    assert pod["imagePullSecrets"] == [{"name": "secret"}]
    assert pod["priorityClassName"] == "system-cluster-critical"
    assert pod["nodeSelector"] == {"kubernetes.io/os": "linux", "pool": "edge"}
    assert pod["tolerations"] == [{"key": "edge", "operator": "Exists"}]
    metadata = _map(template["metadata"])
    assert metadata["labels"] == {"k8s-app": "kubeproxy", "team": "net"}
    assert _map(metadata["annotations"])["note"] == "here"


def test_pods_restart_when_the_configuration_changes() -> None:
    """Init containers make the kernel settings: the process alone would not make them again."""

    def annotations(**config: object) -> object:
        found = rendered({"config": config})
        template = _map(_map(found["DaemonSet", "kubeproxy"]["spec"])["template"])
        return _map(template["metadata"])["annotations"]

    assert annotations() == annotations()
    assert annotations() != annotations(conntrack={"maxPerCore": 0})


@pytest.mark.parametrize(
    ("scrape", "expected"),
    [
        ("ServiceMonitor", {"ServiceMonitor", "Service", "PrometheusRule"}),
        ("PodMonitor", {"PodMonitor", "PrometheusRule"}),
        ("none", {"PrometheusRule"}),
    ],
)
def test_metrics_are_scraped_as_asked(scrape: str, expected: set[str]) -> None:
    labels = {"release": "prometheus"}
    asked = {"enabled": True, "scrape": scrape, "labels": labels, "dashboard": False}
    found = rendered({"monitoring": asked})
    kinds = {kind for kind, _ in found}
    assert expected == kinds - {*(kind for kind, _ in rendered({}))}
    for kind in expected - {"Service"}:
        metadata = _map(found[kind, "kubeproxy"]["metadata"])
        assert {"k8s-app": "kubeproxy", **labels} == metadata["labels"]
