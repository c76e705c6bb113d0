"""The resources that the test API server knows, as one table."""

import msgspec


class Resource(msgspec.Struct, frozen=True):
    """One kind of objects and where it is served."""

    kind: str
    plural: str
    group: str
    version: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    """The field selectors it takes beside metadata.name and metadata.namespace."""

    @property
    def api_version(self) -> str:
        """What stands in `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        """The path below which the group and version is served."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"


RESOURCES = (
    Resource("Service", "services", "", "v1", True, ("svc",), ("spec.clusterIP", "spec.type")),
    Resource("Node", "nodes", "", "v1", False, ("no",), ("spec.unschedulable",)),
    Resource("Pod", "pods", "", "v1", True, ("po",), ("spec.nodeName", "status.phase")),
    Resource("EndpointSlice", "endpointslices", "discovery.k8s.io", "v1", True),
    Resource("ServiceCIDR", "servicecidrs", "networking.k8s.io", "v1", False),
    Resource("Event", "events", "events.k8s.io", "v1", True, ("ev",), ("reason", "type")),
)

RESOURCE_OF_KIND = {resource.kind: resource for resource in RESOURCES}


class Target(msgspec.Struct, frozen=True):
    """What a request path names: a collection, or with a name one object of it."""

    resource: Resource
    namespace: str | None = None
    """None: across all namespaces, or a resource that has none."""
    name: str | None = None
    subresource: str | None = None


def target_of(path: str) -> Target | None:
    """What the path names, or None when nothing is served there."""
    for resource in RESOURCES:
        if path.startswith(resource.root + "/"):
            target = _target_below(resource, path.removeprefix(resource.root + "/").split("/"))
            if target is not None:
                return target
    return None


def _target_below(resource: Resource, parts: list[str]) -> Target | None:
    namespace = None
    if parts[0] == "namespaces" and len(parts) >= 3 and resource.namespaced:
        namespace, parts = parts[1], parts[2:]
    if parts[0] != resource.plural or len(parts) > 3 or not all(parts):
        return None
    name = parts[1] if len(parts) > 1 else None
    if name is not None and resource.namespaced and namespace is None:
        return None
    if parts[2:] not in ([], ["status"]):
        return None
    return Target(resource, namespace, name, parts[2] if len(parts) == 3 else None)
