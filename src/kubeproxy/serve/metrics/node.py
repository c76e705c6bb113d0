"""What packets need besides rules, as metrics: tracking, forwarding, this node, the source."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kubeproxy.base.conntracktable import ConntrackUse
from kubeproxy.base.inet import Family
from kubeproxy.base.printable import printable
from kubeproxy.engine.surroundings import Surroundings
from kubeproxy.serve.metrics.families import Reading, Series, reading

_CONNTRACK: Final = {
    "entries": ("Connections that the kernel tracks", lambda use: use.entries),
    "entries_limit": ("How many connections the kernel may track", lambda use: use.limit),
    "insert_failures_total": (
        "Connections that could not be added to those that are tracked",
        lambda use: use.insert_failures,
    ),
    "dropped_packets_total": (
        "Packets that were dropped because their connection could not be tracked",
        lambda use: use.drops,
    ),
}


def conntrack_families(use: Callable[[], ConntrackUse | None]) -> list[Reading]:
    """The use of the table of connections; no series where connections are not tracked."""

    def read(value: Callable[[ConntrackUse], float]) -> Callable[[], Iterable[Series]]:
        def series() -> Iterable[Series]:
            found = use()
            return () if found is None else (((), value(found)),)

        return series

    return [
        reading(f"kubeproxy_conntrack_{name}", help_, read(value))
        for name, (help_, value) in _CONNTRACK.items()
    ]


def node_families(
    families: Iterable[Family], surroundings: Callable[[], Surroundings]
) -> list[Reading]:
    """Whether this node forwards packets, and is what its Node says."""
    known = tuple(families)

    def forwards() -> Iterable[Series]:
        off = surroundings().not_forwarded
        return [((family.value,), float(family not in off)) for family in known]

    def missing() -> Iterable[Series]:
        addresses = surroundings().missing_addresses
        return [((family.value,), float(family in addresses)) for family in known]

    return [
        reading(
            "kubeproxy_node_forwards_packets",
            "0 where the kernel forwards no packets of a family that has Services, else 1",
            forwards,
            "ip_family",
        ),
        reading(
            "kubeproxy_node_address_missing",
            "1 where no interface has the address of this node, else 0",
            missing,
            "ip_family",
        ),
        reading(
            "kubeproxy_node_object_missing",
            "1 while the API server has no Node of this name, else 0",
            lambda: float(surroundings().no_node),
        ),
    ]


def source_family(silence: Callable[[], float | None], clock: Callable[[], float]) -> Reading:
    """When something last came from the API server; no series with manifests."""

    def read() -> Iterable[Series]:
        seconds = silence()
        return () if seconds is None else (((), clock() - seconds),)

    return reading(
        "kubeproxy_source_last_received_timestamp_seconds",
        "When something last came from the API server: an object, or a bookmark",
        read,
    )


def foreign_family(programs: Mapping[Family, Mapping[str, int]]) -> Reading:
    """How often others changed the rules, by the name of their process."""

    def read() -> Iterable[Series]:
        for family, counts in programs.items():
            for program, number in counts.items():
                yield (family.value, printable(program)), number

    return reading(
        "kubeproxy_foreign_changes_total",
        "Changes that another program made to the rules, and that were repaired",
        read,
        *("ip_family", "program"),
    )


def claim_families(
    conflicts: Callable[[], Iterable[tuple[Family, int]]], ignored: Callable[[], int]
) -> list[Reading]:
    """What of the cluster's objects is not served."""

    def read() -> Iterable[Series]:
        return [((family.value,), number) for family, number in conflicts()]

    return [
        reading(
            "kubeproxy_address_conflicts",
            "Addresses that several service ports claim, once for each that does not get it",
            read,
            "ip_family",
        ),
        reading(
            "kubeproxy_ignored_parts",
            "Objects, and parts of them, that are ignored because they are invalid",
            lambda: float(ignored()),
        ),
    ]
