"""The resources that are watched, and the queries for them.

The selectors leave out what the proxy would ignore: Services of another proxy, headless Services,
and every Node but our own.
"""

import msgspec

from kubeproxy.cluster.objects.meta import HEADLESS_LABEL, SERVICE_PROXY_NAME_LABEL, Kind

Query = tuple[tuple[str, str], ...]
"""The parameters of a request, in the order in which they are sent."""

PAGE_SIZE = 500
LARGE_LIST = 256 * 1024 * 1024
"""Bytes: far above the lists of the largest clusters."""
SMALL_LIST = 16 * 1024 * 1024


class Resource(msgspec.Struct, frozen=True):
    """One kind of objects: its path on the API server, and which objects to select.

    `largest` is the most bytes that are read of a list.
    """

    kind: Kind
    path: str
    label_selector: str = ""
    field_selector: str = ""
    largest: int = SMALL_LIST

    @property
    def name(self) -> str:
        """The plural, as in roles and logs."""
        return self.path.rpartition("/")[2]

    @property
    def selectors(self) -> Query:
        """The part of the query that selects objects."""
        both = (("labelSelector", self.label_selector), ("fieldSelector", self.field_selector))
        return tuple(pair for pair in both if pair[1])


SERVICES = Resource(
    Kind.SERVICE,
    "/api/v1/services",
    label_selector=f"!{SERVICE_PROXY_NAME_LABEL}",
    field_selector="spec.clusterIP!=None",
    largest=LARGE_LIST,
)
ENDPOINT_SLICES = Resource(
    Kind.ENDPOINT_SLICE,
    "/apis/discovery.k8s.io/v1/endpointslices",
    label_selector=f"!{HEADLESS_LABEL}",
    largest=LARGE_LIST,
)
SERVICE_CIDRS = Resource(Kind.SERVICE_CIDR, "/apis/networking.k8s.io/v1/servicecidrs")


def own_node(name: str) -> Resource:
    """The Node of that name only."""
    return Resource(Kind.NODE, "/api/v1/nodes", field_selector=f"metadata.name={name}")


def list_query(
    resource: Resource, *, version: str = "", page_size: int = 0, token: str = ""
) -> Query:
    """A list, or with a token its next page (without a version of its own)."""
    query = [*resource.selectors]
    if page_size:
        query.append(("limit", str(page_size)))
    if token:
        query.append(("continue", token))
    elif version:
        query.append(("resourceVersion", version))
    return tuple(query)


def watch_query(resource: Resource, version: str, seconds: int) -> Query:
    """A watch from a version; the server ends it after so many seconds."""
    return (
        *resource.selectors,
        ("watch", "true"),
        ("allowWatchBookmarks", "true"),
        ("resourceVersion", version),
        ("timeoutSeconds", str(seconds)),
    )


def watch_list_query(resource: Resource, version: str, seconds: int) -> Query:
    """A watch that begins with all objects, at least as new as the version."""
    known = (("resourceVersion", version),) if version else ()
    return (
        *resource.selectors,
        ("watch", "true"),
        ("allowWatchBookmarks", "true"),
        ("sendInitialEvents", "true"),
        ("resourceVersionMatch", "NotOlderThan"),
        *known,
        ("timeoutSeconds", str(seconds)),
    )
