"""The folders of deploy/ as they reach a cluster: what kustomize makes of them.

Only as much of kustomize as they use. `test_overlays` compares with the real one where there is
a kubectl.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import yaml

Document = dict[str, object]

DEPLOY = Path(__file__).parents[2] / "deploy"
MODES = ("nftables", "iptables", "ipvs")
FOLDERS = (*MODES, "monitoring", "trial")


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What we do not know, we would leave out in silence."""


class _Generator(_Strict, frozen=True):
    name: str
    files: tuple[str, ...]
    behavior: str = "create"
    options: Document = {}


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
    namespace: str
    resources: tuple[str, ...]
    config_map_generator: tuple[_Generator, ...] = ()
    generator_options: Document = {}
    images: tuple[_Image, ...] = ()
    patches: tuple[_Patch, ...] = ()


class _Operation(_Strict, frozen=True):
    op: str
    path: str
    value: object


class _Metadata(msgspec.Struct, frozen=True):
    name: str


class _Header(msgspec.Struct, frozen=True):
    kind: str
    metadata: _Metadata


Found = dict[tuple[str, str], Document]
"""Documents by kind and name."""
_CLUSTER_WIDE = {"ClusterRoleBinding"}


def overlay(folder: str) -> Found:
    """All documents of a folder."""
    return _build(DEPLOY / folder)


def config_file(found: Found, name: str = "config.conf") -> str:
    """A file of the ConfigMap."""
    return msgspec.convert(found["ConfigMap", "kube-proxy"]["data"], dict[str, str])[name]


def _build(folder: Path) -> Found:
    text = (folder / "kustomization.yaml").read_text()
    wanted = msgspec.convert(yaml.safe_load(text), _Kustomization)
    found: Found = {}
    for resource in wanted.resources:
        path = folder / resource
        new = _build(path) if path.is_dir() else dict(_documents(path))
        assert not found.keys() & new.keys()
        found |= new
    for generator in wanted.config_map_generator:
        _generate(found, folder, generator)
    for patch in wanted.patches:
        found = _patched(found, patch)
    for image in wanted.images:
        _set_image(found, image)
    for document in found.values():
        _set_namespace(document, wanted.namespace)
    return found


def _documents(path: Path) -> Iterator[tuple[tuple[str, str], Document]]:
    for each in yaml.safe_load_all(path.read_text()):
        # A copy in which YAML's aliases are no longer one and the same object.
        document = msgspec.json.decode(msgspec.json.encode(each), type=Document)
        header = msgspec.convert(document, _Header)
        yield (header.kind, header.metadata.name), document


def _generate(found: Found, folder: Path, generator: _Generator) -> None:
    key = ("ConfigMap", generator.name)
    data = {name: (folder / name).read_text() for name in generator.files}
    if generator.behavior == "merge":
        before = msgspec.convert(found[key]["data"], dict[str, str])
        found[key] = {**found[key], "data": before | data}
        return
    assert key not in found
    metadata = {"name": generator.name, **generator.options}
    found[key] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _patched(found: Found, patch: _Patch) -> Found:
    change: object = yaml.safe_load(patch.patch)
    if isinstance(change, dict):
        assert change.pop("$patch") == "delete"
        header = msgspec.convert(change, _Header)
        gone = (header.kind, header.metadata.name)
        assert gone in found
        return {key: document for key, document in found.items() if key != gone}
    document = found[patch.target["kind"], patch.target["name"]]
    for operation in msgspec.convert(change, tuple[_Operation, ...]):
        _operate(document, operation)
    return {
        (header.kind, header.metadata.name): document
        for document in found.values()
        for header in [msgspec.convert(document, _Header)]
    }


def _operate(document: Document, operation: _Operation) -> None:
    """Carry out an operation of RFC 6902; all but the last step of its path must exist."""
    *steps, last = operation.path.removeprefix("/").split("/")
    place: object = document
    for step in steps:
        if isinstance(place, list):
            place = place[int(step)]
        else:
            assert isinstance(place, dict)
            place = place[step]
    if isinstance(place, list):
        assert (operation.op, last) == ("add", "-")
        place.append(operation.value)
        return
    assert isinstance(place, dict)
    assert operation.op == "add" or last in place
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
