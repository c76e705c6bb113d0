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
    return _query(
        resource,
        ("limit", str(page_size or "")),
        ("continue", token),
        ("resourceVersion", "" if token else version),
    )


def watch_query(
    resource: Resource, version: str, seconds: int, *, watch_list: bool = False
) -> Query:
    """A watch from a version; the server ends it after so many seconds.

    A watch-list begins with all objects, at least as new as the version.
    """
    return _query(
        resource,
        ("watch", "true"),
        ("allowWatchBookmarks", "true"),
        ("sendInitialEvents", "true" if watch_list else ""),
        ("resourceVersionMatch", "NotOlderThan" if watch_list else ""),
        ("resourceVersion", version),
        ("timeoutSeconds", str(seconds)),
    )


def _query(resource: Resource, *parameters: tuple[str, str]) -> Query:
    """The selectors and these parameters, without empty ones."""
    selectors = (
        ("labelSelector", resource.label_selector),
        ("fieldSelector", resource.field_selector),
    )
    return tuple(pair for pair in (*selectors, *parameters) if pair[1])
