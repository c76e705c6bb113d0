"""deploy/ as it reaches a cluster: what kustomize makes of the folder that `configure` writes.

Only as much of kustomize as is used there; `test_overlays` compares with what the real one made.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import msgspec
import yaml

Document = dict[str, object]

DEPLOY = Path(__file__).parents[2] / "deploy"
API_SERVER = "https://192.0.2.1:6443"
VALUES = (
    "--image=registry.example/kubeproxy:0.1.0",
    f"--api-server={API_SERVER}",
    "--cluster-cidr=10.64.0.0/14,fd40::/48",
)
MODES = ("nftables", "iptables", "ipvs")
ASKED = {
    **{mode: (f"--mode={mode}",) for mode in MODES},
    "monitoring": ("--monitoring",),
    "trial": ("--trial",),
}
FOLDERS = tuple(ASKED)


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What we do not know, we would leave out in silence."""


class _Options(_Strict, frozen=True):
    disable_name_suffix_hash: bool
    labels: dict[str, str] = {}


class _Generator(_Strict, frozen=True):
    name: str
    files: tuple[str, ...]
    options: _Options


class _Patch(_Strict, frozen=True):
    patch: str
    target: dict[str, str] = {}


class _Image(_Strict, frozen=True):
    name: str
    new_name: str
    new_tag: str


class _Kustomization(_Strict, frozen=True):
    api_version: str
    kind: str
    namespace: str = ""
    resources: tuple[str, ...] = ()
    components: tuple[str, ...] = ()
    config_map_generator: tuple[_Generator, ...] = ()
    images: tuple[_Image, ...] = ()
    patches: tuple[_Patch, ...] = ()


class _Operation(_Strict, frozen=True):
    op: str
    path: str
    value: object


class _Labelled(_Strict, frozen=True):
    """What a patch without a target changes: labels."""

    name: str
    labels: dict[str, str]


class _Relabelling(_Strict, frozen=True):
    api_version: str
    kind: str
    metadata: _Labelled


class _Metadata(msgspec.Struct, frozen=True):
    name: str


class _Header(msgspec.Struct, frozen=True):
    kind: str
    metadata: _Metadata


Found = dict[tuple[str, str], Document]
"""Documents by kind and name."""
_CLUSTER_WIDE = {"ClusterRoleBinding"}


def configure(arguments: Sequence[str], into: Path) -> subprocess.CompletedProcess[str]:
    """Have the folder written."""
    command = [sys.executable, str(DEPLOY / "configure"), f"--into={into}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@cache
def written(folder: str) -> dict[str, str]:
    """The files that `configure` writes for one of `FOLDERS`, by name."""
    with tempfile.TemporaryDirectory() as directory:
        into = Path(directory)
        done = configure([*VALUES, *ASKED[folder]], into)
        assert (done.returncode, done.stderr) == (0, "")
        return {path.name: path.read_text() for path in into.iterdir()}


def overlay(folder: str) -> Found:
    """All documents of one of `FOLDERS`."""
    files = written(folder)
    wanted = _kustomization(files["kustomization.yaml"])
    found: Found = {}
    for generator in wanted.config_map_generator:
        _generate(found, generator, {name: files[name] for name in generator.files})
    for component in wanted.components:
        _add_component(found, DEPLOY / Path(component).name)
    for image in wanted.images:
        _set_image(found, image)
    for document in found.values():
        _set_namespace(document, wanted.namespace)
    return found


def config_file(found: Found, name: str = "config.conf") -> str:
    """A file of the ConfigMap."""
    return msgspec.convert(found["ConfigMap", "kubeproxy"]["data"], dict[str, str])[name]


def _kustomization(text: str) -> _Kustomization:
    return msgspec.convert(yaml.safe_load(text), _Kustomization)


def _add_component(found: Found, folder: Path) -> None:
    wanted = _kustomization((folder / "kustomization.yaml").read_text())
    assert wanted.kind == "Component"
    for resource in wanted.resources:
        new = dict(_documents(folder / resource))
        assert not found.keys() & new.keys()
        found |= new
    for generator in wanted.config_map_generator:
        _generate(
            found, generator, {name: (folder / name).read_text() for name in generator.files}
        )
    for component in wanted.components:
        _add_component(found, folder / component)
    for patch in wanted.patches:
        _patch(found, patch)


def _documents(path: Path) -> Iterator[tuple[tuple[str, str], Document]]:
    for each in yaml.safe_load_all(path.read_text()):
        # A copy in which YAML's aliases are no longer one and the same object.
        document = msgspec.json.decode(msgspec.json.encode(each), type=Document)
        header = msgspec.convert(document, _Header)
        yield (header.kind, header.metadata.name), document


def _generate(found: Found, generator: _Generator, data: dict[str, str]) -> None:
    assert generator.options.disable_name_suffix_hash
    labels = generator.options.labels
    metadata = {"name": generator.name, **({"labels": labels} if labels else {})}
    key = ("ConfigMap", generator.name)
    assert key not in found
    found[key] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _patch(found: Found, patch: _Patch) -> None:
    change: object = yaml.safe_load(patch.patch)
    if isinstance(change, dict):
        wanted = msgspec.convert(change, _Relabelling)
        metadata = found[wanted.kind, wanted.metadata.name]["metadata"]
        assert isinstance(metadata, dict)
        metadata["labels"] = {**metadata.get("labels", {}), **wanted.metadata.labels}
        return
    document = found[patch.target["kind"], patch.target["name"]]
    for operation in msgspec.convert(change, tuple[_Operation, ...]):
        _operate(document, operation)


def _operate(document: Document, operation: _Operation) -> None:
    """Carry out an operation of RFC 6902; all but the last step of its path must exist."""
    assert operation.op == "add"
    *steps, last = operation.path.removeprefix("/").split("/")
    place: object = document
    for step in steps:
        if isinstance(place, list):
            place = place[int(step)]
        else:
            assert isinstance(place, dict)
            place = place[step]
    if isinstance(place, list):
        assert last == "-"
        place.append(operation.value)
        return
    assert isinstance(place, dict)
    place[last] = operation.value


def _set_image(place: object, image: _Image) -> None:
    if isinstance(place, dict):
        if place.get("image") == image.name:
            place["image"] = f"{image.new_name}:{image.new_tag}"
        for each in place.values():
            _set_image(each, image)
    elif isinstance(place, list):
        for each in place:
            _set_image(each, image)


def _set_namespace(document: Document, namespace: str) -> None:
    if document["kind"] not in _CLUSTER_WIDE:
        metadata = document["metadata"]
        assert isinstance(metadata, dict)
        metadata["namespace"] = namespace
