"""The Helm chart as it reaches a cluster, rendered by the real helm."""

import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
import yaml

from deploy.overlays import API_SERVER, DEPLOY, Document, Found

NAMESPACE = "kube-system"
VALUES = {
    "image": {"repository": "registry.example/kubeproxy", "tag": "0.1.0"},
    "apiServer": API_SERVER,
    "clusterCIDR": "10.64.0.0/14,fd40::/48",
}
HELM = Path(sys.executable).with_name("helm")

needs_helm = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="helm comes as a wheel for x86-64 only"
)


def helm(*arguments: str, values: Mapping[str, object]) -> subprocess.CompletedProcess[str]:
    """Run helm on the chart."""
    command = [str(HELM), *arguments, str(DEPLOY), "--values=-"]
    return subprocess.run(
        command, input=yaml.safe_dump(dict(values)), capture_output=True, text=True, check=False
    )


def rendered(values: Mapping[str, object]) -> Found:
    """All documents of the chart with these values besides those that it must have."""
    done = helm("template", f"--namespace={NAMESPACE}", values={**VALUES, **values})
    assert (done.returncode, done.stderr) == (0, "")
    found: Found = {}
    for document in yaml.safe_load_all(done.stdout):
        key = document["kind"], document["metadata"]["name"]
        assert key not in found
        found[key] = document
    return found


def meaning(found: Found) -> Found:
    """The documents with the files of the ConfigMap read, so that their layout does not matter."""
    read: Found = {}
    for key, document in found.items():
        copy = msgspec.json.decode(msgspec.json.encode(document), type=Document)
        if key == ("ConfigMap", "kubeproxy"):
            files = msgspec.convert(copy["data"], dict[str, str])
            copy["data"] = {name: yaml.safe_load(text) for name, text in files.items()}
        read[key] = copy
    return read
