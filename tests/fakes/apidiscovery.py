"""The documents that list the resources; enough for kubectl."""

from collections.abc import Sequence

from fakes.apiresources import RESOURCES, Resource

Document = dict[str, object]

VERSION: Document = {
    "major": "1",
    "minor": "37",
    "gitVersion": "v1.37.0",
    "gitCommit": "0000000000000000000000000000000000000000",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "linux/amd64",
}

_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]


def discovery(path: str) -> Document | None:
    """The document served at a path, or None when the path is not about discovery."""
    return _DOCUMENTS.get(path)


def _documents() -> dict[str, Document]:
    groups = {resource.group for resource in RESOURCES if resource.group}
    roots = {resource.root for resource in RESOURCES}
    documents: dict[str, Document] = {
        "/version": VERSION,
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [_group(group) for group in sorted(groups)],
        },
        "/openapi/v3": {
            "paths": {
                root[1:]: {"serverRelativeURL": f"/openapi/v3{root}?hash=1"} for root in roots
            }
        },
    }
    for group in groups:
        documents[f"/apis/{group}"] = {"kind": "APIGroup", "apiVersion": "v1"} | _group(group)
    for root in roots:
        served = [resource for resource in RESOURCES if resource.root == root]
        documents[root] = _resource_list(served)
        documents[f"/openapi/v3{root}"] = _openapi(served)
    return documents


def _group(group: str) -> Document:
    version = {"groupVersion": f"{group}/v1", "version": "v1"}
    return {"name": group, "versions": [version], "preferredVersion": version}


def _resource_list(served: Sequence[Resource]) -> Document:
    entries = [entry for resource in served for entry in _resource_entries(resource)]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": served[0].api_version,
        "resources": entries,
    }


def _resource_entries(resource: Resource) -> list[Document]:
    shared: Document = {"namespaced": resource.namespaced, "kind": resource.kind}
    return [
        shared
        | {
            "name": resource.plural,
            "singularName": resource.kind.lower(),
            "shortNames": list(resource.short_names),
            "verbs": _VERBS,
        },
        shared
        | {
            "name": f"{resource.plural}/status",
            "singularName": "",
            "verbs": ["get", "patch", "update"],
        },
    ]


def _openapi(served: Sequence[Resource]) -> Document:
    """Only what kubectl looks for before a write: that `fieldValidation` is understood."""
    parameter = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
    paths: Document = {}
    for resource in served:
        scope = "/namespaces/{namespace}" if resource.namespaced else ""
        gvk = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        operation = {
            "parameters": [parameter],
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-group-version-kind": gvk,
        }
        paths[f"{resource.root}{scope}/{resource.plural}/{{name}}"] = {"patch": operation}
    info = {"title": "test API server", "version": "v1.37.0"}
    return {"openapi": "3.0.0", "info": info, "paths": paths}


_DOCUMENTS = _documents()
