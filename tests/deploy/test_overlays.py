"""What the folders of deploy/ come to, and how they differ."""

from pathlib import Path

import msgspec
import pytest
import yaml

from deploy.objects import DaemonSet, daemon_set
from deploy.overlays import DEPLOY, FOLDERS, MODES, config_file, overlay
from kubeproxy.config.document import to_document
from kubeproxy.config.flags import parse_flags
from kubeproxy.config.load import Loaded, complete
from kubeproxy.config.notice import Level
from kubeproxy.config.validate import validate

RENDERED = Path(__file__).parent / "rendered"


def loaded(folder: str) -> Loaded:
    """The configuration of a folder, as its DaemonSet's flags and file make it."""
    found = overlay(folder)
    (container,) = daemon_set(found).pod.containers
    flags = [argument.replace("$(NODE_NAME)", "kestrel") for argument in container.args]
    return complete(parse_flags(flags), config_file(found))


@pytest.mark.parametrize("folder", FOLDERS)
def test_our_reading_of_kustomize_is_its_own(folder: str) -> None:
    """What it is compared with: kubectl kustomize deploy/X > tests/deploy/rendered/X.yaml."""
    documents = list(yaml.safe_load_all((RENDERED / f"{folder}.yaml").read_text()))
    expected = {(each["kind"], each["metadata"]["name"]): each for each in documents}
    assert expected == overlay(folder)


def test_every_file_is_used_or_is_the_image() -> None:
    names = {path.name for path in DEPLOY.rglob("*") if path.is_file()}
    assert names == {
        *("Dockerfile", "kustomization.yaml", "daemonset.yaml", "rbac.yaml"),
        *("config.conf", "kubeconfig.conf", "rules.yaml", "servicemonitor.yaml", "dashboard.json"),
    }


@pytest.mark.parametrize("folder", [*MODES, "monitoring"])
def test_the_configuration_is_valid(folder: str) -> None:
    read = loaded(folder)
    validate(read.config, read.gates)
    said = [notice.message for notice in read.notices if notice.level is not Level.INFO]
    expected = 1 if folder == "ipvs" else 0  # which is deprecated
    assert expected == len(said), said


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        pytest.param("iptables", {"mode": "iptables"}, id="iptables"),
        pytest.param("ipvs", {"mode": "ipvs"}, id="ipvs"),
        pytest.param("monitoring", {"metricsBindAddress": "0.0.0.0:10249"}, id="monitoring"),
    ],
)
def test_configurations_differ_only_in_what_they_are_about(
    folder: str, expected: dict[str, str]
) -> None:
    of_base = config_file(overlay("nftables")).splitlines()
    own = config_file(overlay(folder)).splitlines()
    assert len(of_base) == len(own)
    differing = [new for old, new in zip(of_base, own, strict=True) if old != new]
    assert expected == yaml.safe_load("\n".join(differing))


def test_the_oom_score_is_the_one_that_the_kubelet_gives() -> None:
    """Of pods of this priority class; a lower one takes a capability that we do not have."""
    assert daemon_set(overlay("nftables")).pod.priority_class_name == "system-node-critical"
    assert {-997} == {to_document(loaded(mode).config)["oomScoreAdj"] for mode in MODES}


def test_the_trial_differs_from_ipvs_in_its_nodes_and_names_alone() -> None:
    found = overlay("trial")
    assert list(found) == [("DaemonSet", "kube-proxy-trial")]
    names = {"k8s-app": "kube-proxy-trial"}
    trial = daemon_set(found)
    assert names == trial.metadata.labels == trial.spec.selector.match_labels
    assert names == trial.spec.template.metadata.labels
    selector = {"kubernetes.io/os": "linux", "kubeproxy": "trial"}
    assert selector == trial.pod.node_selector
    usual = daemon_set(overlay("ipvs"))
    as_usual = msgspec.structs.replace(trial.pod, node_selector=usual.pod.node_selector)
    assert usual.pod == as_usual


LOCK = {"/run/xtables.lock"}


@pytest.mark.parametrize(
    ("folder", "beside", "expected"),
    [
        pytest.param(
            "iptables",
            "nftables",
            {"rights": set(), "mounts": LOCK, "first": {*LOCK, "/lib/modules"}},
            id="iptables",
        ),
        pytest.param(
            "ipvs",
            "iptables",
            {"rights": {"NET_RAW"}, "mounts": set(), "first": set()},
            id="ipvs",
        ),
        pytest.param(
            "monitoring",
            "nftables",
            {"rights": set(), "mounts": set(), "first": set()},
            id="monitoring",
        ),
    ],
)
def test_what_a_folder_adds_to_another(
    folder: str, beside: str, expected: dict[str, set[str]]
) -> None:
    def lists(each: DaemonSet) -> dict[str, set[str]]:
        (container,) = each.pod.containers
        (first,) = each.pod.init_containers
        assert container.security_context.capabilities is not None
        return {
            "rights": set(container.security_context.capabilities.add),
            "mounts": {mount.mount_path for mount in container.volume_mounts},
            "first": {mount.mount_path for mount in first.volume_mounts},
        }

    less, more = lists(daemon_set(overlay(beside))), lists(daemon_set(overlay(folder)))
    assert expected == {name: more[name] - less[name] for name in less}
    assert [name for name in less if less[name] - more[name]] == []
