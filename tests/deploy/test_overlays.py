"""What reaches a cluster, by mode, and how the modes differ."""

import json
from pathlib import Path

import msgspec
import pytest
import yaml

from deploy.objects import DaemonSet, daemon_set
from deploy.overlays import (
    ASKED,
    DEPLOY,
    FOLDERS,
    MODES,
    VALUES,
    config_file,
    configure,
    overlay,
    written,
)
from kubeproxy.config.document import to_document
from kubeproxy.config.errors import Level
from kubeproxy.config.flags import parse_flags
from kubeproxy.config.load import Loaded, complete
from kubeproxy.config.validate import validate
from kubeproxy.dataplane import modes

RENDERED = Path(__file__).parent / "rendered"
IMAGE = VALUES[0]


def loaded(folder: str) -> Loaded:
    """The configuration of a folder, as its DaemonSet's flags and file make it."""
    found = overlay(folder)
    (container,) = daemon_set(found).pod.containers
    flags = [argument.replace("$(NODE_NAME)", "kestrel") for argument in container.args]
    return complete(parse_flags(flags), config_file(found), modes.MODES)


@pytest.mark.parametrize("folder", FOLDERS)
def test_our_reading_of_kustomize_is_its_own(folder: str) -> None:
    """What it is compared with is written by tests/deploy/render."""
    documents = list(yaml.safe_load_all((RENDERED / f"{folder}.yaml").read_text()))
    expected = {(each["kind"], each["metadata"]["name"]): each for each in documents}
    assert expected == overlay(folder)


def test_every_file_is_used_or_is_the_image() -> None:
    folders = [*ASKED, "."]
    names = {each.name for folder in folders for each in (DEPLOY / folder).iterdir()}
    chart = {"Chart.yaml", "values.yaml", "values.schema.json", "templates", ".helmignore"}
    assert names - {*ASKED, "cluster", *chart} == {
        *("Dockerfile", "configure", "kustomization.yaml", "daemonset.yaml", "rbac.yaml"),
        *("rules.yaml", "servicemonitor.yaml", "podmonitor.yaml", "dashboard.json"),
        *("config.conf", "kubeconfig.conf"),
    }


# What kubeadm has in a cluster for its kube-proxy, and what we must never write over.
KUBEADM = {
    ("ConfigMap", "kube-proxy"),
    ("DaemonSet", "kube-proxy"),
    ("ServiceAccount", "kube-proxy"),
    ("ClusterRoleBinding", "kubeadm:node-proxier"),
    ("Role", "kube-proxy"),
    ("RoleBinding", "kube-proxy"),
}


@pytest.mark.parametrize("folder", FOLDERS)
def test_nothing_of_kubeadms_is_written_over(folder: str) -> None:
    found = overlay(folder)
    assert not found.keys() & KUBEADM
    assert {name.partition("-")[0] for _, name in found} == {"kubeproxy"}


@pytest.mark.parametrize("folder", FOLDERS)
def test_on_a_node_with_kubeadms_proxy_ours_waits(folder: str) -> None:
    (term,) = daemon_set(overlay(folder)).pod.affinity.pod_anti_affinity.required
    assert term.topology_key == "kubernetes.io/hostname"
    assert term.label_selector.match_labels == {"k8s-app": "kube-proxy"}


@pytest.mark.parametrize("folder", sorted({*FOLDERS} - {"trial"}))
def test_a_part_alone_is_refused(folder: str) -> None:
    """Each wants the ConfigMap with the cluster's values, and kustomize cannot find it."""
    parts = [folder]
    for part in parts:
        wanted = yaml.safe_load((DEPLOY / part / "kustomization.yaml").read_text())
        assert wanted["kind"] == "Component"
        patches = [yaml.safe_load(each["patch"]) for each in wanted.get("patches", ())]
        if any(isinstance(each, dict) and each["kind"] == "ConfigMap" for each in patches):
            return
        parts += [Path(each).name for each in wanted.get("components", ())]
    pytest.fail(f"nothing in {parts} wants the ConfigMap")


CIDR = "--cluster-cidr=10.64.0.0/14"
SERVER = "--api-server=https://192.0.2.1:6443"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param([SERVER, CIDR], "--image", id="no-image"),
        pytest.param([SERVER, CIDR, "--image="], "want NAME:TAG", id="empty-image"),
        pytest.param([SERVER, CIDR, "--image=a/b"], "want NAME:TAG", id="image-without-tag"),
        pytest.param([SERVER, CIDR, "--image=REG/b:1"], "want NAME:TAG", id="no-such-image"),
        pytest.param([IMAGE], "want --api-server and --cluster-cidr, or --like", id="no-values"),
        pytest.param([IMAGE, SERVER], "want --api-server and --cluster-cidr", id="no-range"),
        pytest.param([IMAGE, SERVER, "--cluster-cidr="], "--cluster-cidr ''", id="empty-range"),
        pytest.param(
            [IMAGE, SERVER, f"{CIDR},10.0.0.0/8"], "one range of each family", id="two-of-a-family"
        ),
        pytest.param([IMAGE, CIDR], "want --api-server and --cluster-cidr", id="no-server"),
        pytest.param([IMAGE, CIDR, "--api-server="], "want https://", id="empty-server"),
        pytest.param([IMAGE, CIDR, "--api-server=a:6443"], "want https://", id="no-url"),
        pytest.param([IMAGE, "--like=/dev/null"], "this is not the ConfigMap", id="like-nothing"),
    ],
)
def test_without_a_value_there_is_nothing_to_apply(
    arguments: list[str], expected: str, tmp_path: Path
) -> None:
    done = configure(arguments, tmp_path / "cluster")
    assert done.returncode != 0
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


KUBEADMS = """apiVersion: kubeproxy.config.k8s.io/v1alpha1
bindAddress: 0.0.0.0
clientConnection:
  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf
  qps: 0
clusterCIDR: 10.244.0.0/16
conntrack:
  maxPerCore: null
kind: KubeProxyConfiguration
logging:
  flushFrequency: 0
metricsBindAddress: ""
mode: ""
nodePortAddresses: null
oomScoreAdj: null
"""


def config_map(directory: Path, config: str) -> str:
    """A file with the ConfigMap of kubeadm's proxy, as an argument."""
    data = {"config.conf": config, "kubeconfig.conf": written("nftables")["kubeconfig.conf"]}
    file = directory / "kube-proxy.json"
    file.write_text(json.dumps({"kind": "ConfigMap", "data": data}))
    return f"--like={file}"


def test_the_clusters_own_configuration_is_taken_over(tmp_path: Path) -> None:
    into = tmp_path / "cluster"
    done = configure([IMAGE, config_map(tmp_path, KUBEADMS), "--mode=iptables"], into)
    assert (done.returncode, done.stderr) == (0, "")
    expected = KUBEADMS.replace('mode: ""', "mode: iptables").replace("Adj: null", "Adj: -997")
    assert expected == (into / "config.conf").read_text()
    assert written("nftables")["kubeconfig.conf"] == (into / "kubeconfig.conf").read_text()
    read = complete(parse_flags([]), expected, modes.MODES)
    validate(read.config, read.gates, modes.MODES)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param("", "no line `kind: KubeProxyConfiguration`", id="another-kind"),
        pytest.param(f"{KUBEADMS}mode: ipvs\n", "mode does not stand on one line", id="twice"),
        pytest.param(
            KUBEADMS.replace('mode: ""', "mode:\n  ipvs"), "mode does not stand", id="two-lines"
        ),
    ],
)
def test_a_configuration_that_cannot_be_taken_over(
    config: str, expected: str, tmp_path: Path
) -> None:
    done = configure([IMAGE, config_map(tmp_path, config)], tmp_path / "cluster")
    assert (done.returncode, expected in done.stderr) == (1, True)
    assert not (tmp_path / "cluster").exists()


def test_an_image_by_its_digest(tmp_path: Path) -> None:
    digest = f"sha256:{'0' * 64}"
    image = f"--image=registry.example:5000/net/kubeproxy@{digest}"
    assert configure([image, SERVER, CIDR], tmp_path).returncode == 0
    wanted = yaml.safe_load((tmp_path / "kustomization.yaml").read_text())
    name = "registry.example:5000/net/kubeproxy"
    assert wanted["images"] == [{"name": "kubeproxy", "newName": name, "digest": digest}]


def test_the_image_takes_nothing_from_outside_without_a_hash() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    installs = [line for line in lines if "pip install" in line and not line.startswith("#")]
    assert len(installs) == 2
    for line in installs:
        assert "--require-hashes" in line or "--no-deps --no-build-isolation" in line


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_configuration_is_valid(folder: str) -> None:
    read = loaded(folder)
    validate(read.config, read.gates, modes.MODES)
    said = [notice.message for notice in read.notices if notice.level is not Level.INFO]
    expected = 1 if folder == "ipvs" else 0  # which is deprecated
    assert expected == len(said), said


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        pytest.param("iptables", {"mode": "iptables"}, id="iptables"),
        pytest.param("ipvs", {"mode": "ipvs"}, id="ipvs"),
        pytest.param("monitoring", {"metricsBindAddress": "0.0.0.0:10249"}, id="monitoring"),
        pytest.param("trial", None, id="trial"),
    ],
)
def test_configurations_differ_only_in_what_they_are_about(
    folder: str, expected: dict[str, str] | None
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


def test_the_trial_differs_from_ipvs_in_its_nodes_alone() -> None:
    """So what comes after it is an update of the same DaemonSet."""
    trial, usual = daemon_set(overlay("trial")), daemon_set(overlay("ipvs"))
    selector = {"kubernetes.io/os": "linux", "kubeproxy": "trial"}
    assert selector == trial.pod.node_selector
    as_usual = msgspec.structs.replace(trial.pod, node_selector=usual.pod.node_selector)
    assert usual.pod == as_usual
    assert (usual.metadata, usual.spec.selector) == (trial.metadata, trial.spec.selector)


LOCK = {"/run/xtables.lock"}


@pytest.mark.parametrize(
    ("folder", "beside", "expected"),
    [
        pytest.param(
            "iptables",
            "nftables",
            {"rights": {"NET_RAW"}, "mounts": LOCK, "first": {*LOCK, "/lib/modules"}},
            id="iptables",
        ),
        pytest.param(
            "ipvs",
            "iptables",
            {"rights": set(), "mounts": set(), "first": set()},
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
