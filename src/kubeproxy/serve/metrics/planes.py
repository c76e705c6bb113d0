"""What dataplanes have counted, and the kernel's counters of packets: read when somebody asks."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import assert_never

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.contract import Counting, Dataplane, Figures
from kubeproxy.serve.metrics.families import About, Kind, Reading
from kubeproxy.table.node import Mode

_Series = Iterator[tuple[tuple[str, ...], float]]
_FAMILY = ("ip_family",)
_PREFIX = "kubeproxy_sync_proxy_rules_"
_LISTENERS = "kubeproxy_nftables_localhost_nodeport_"


def figure_families(
    mode: Mode, planes: Mapping[Family, Dataplane], *, localhost: bool
) -> list[Reading]:
    """The families that the mode has; `localhost` is the gate for listeners of its own."""

    def failures(name: str, help_: str, pick: Callable[[Figures], int | None]) -> Reading:
        about = About(f"{name}_total", Kind.COUNTER, f"[ALPHA] {help_}", _FAMILY)
        return Reading(about, lambda: _told(planes, pick))

    restores = failures(
        f"{_PREFIX}iptables_restore_failures",
        "Runs of iptables-restore that failed",
        lambda figures: figures.restore_failures,
    )
    match mode:
        case Mode.IPVS:
            return [restores]
        case Mode.IPTABLES:
            partial = failures(
                f"{_PREFIX}iptables_partial_restore_failures",
                "Runs of iptables-restore with changes only that failed",
                lambda figures: figures.partial_restore_failures,
            )
            return [restores, partial]
        case Mode.NFTABLES:
            found = [
                failures(
                    f"{_PREFIX}nftables_sync_failures",
                    "Transactions that the kernel refused",
                    lambda figures: figures.commit_failures,
                ),
                failures(
                    f"{_PREFIX}nftables_cleanup_failures",
                    "Removals of unused chains that the kernel refused",
                    lambda figures: figures.cleanup_failures,
                ),
            ]
            if localhost:
                found += (
                    _listeners(planes),
                    failures(
                        f"{_LISTENERS}listener_creation_failures",
                        "Times that a listener for a node port of localhost could not be opened",
                        lambda figures: figures.listener_failures,
                    ),
                )
            return found
        case _:
            assert_never(mode)


def packet_families(mode: Mode, families: tuple[Family, ...], *, localhost: bool) -> list[Reading]:
    """Packets that the kernel has counted. Reading them asks the kernel: do it in a thread."""
    if mode is Mode.IPTABLES:
        from kubeproxy.dataplane.iptables.setup import (  # noqa: PLC0415  # one mode a run
            INVALID_COUNTER,
            LOCALHOST_COUNTER,
        )

        return [
            _accounted(
                "kubeproxy_iptables_ct_state_invalid_dropped_packets_total",
                "Packets that were dropped because conntrack knows no connection of theirs",
                INVALID_COUNTER,
            ),
            _accounted(
                "kubeproxy_iptables_localhost_nodeports_accepted_packets_total",
                "Packets to node ports of 127.0.0.0/8",
                LOCALHOST_COUNTER,
            ),
        ]
    if mode is not Mode.NFTABLES:
        return []
    full = About(
        "kubeproxy_nftables_affinity_full_total",
        Kind.COUNTER,
        "[ALPHA] Connections to services with session affinity whose client shares a place with"
        " others, because nftables.affinitySize clients are remembered already",
        _FAMILY,
    )
    rejected = About(
        f"{_LISTENERS}rejected_packets_total",
        Kind.COUNTER,
        "[ALPHA] Packets to node ports of localhost that nobody listens on",
        (*_FAMILY, "protocol"),
    )
    found = [Reading(full, lambda: _affinity_full(families))]
    return [*found, Reading(rejected, lambda: _rejected(families))] if localhost else found


def _told(planes: Mapping[Family, Dataplane], pick: Callable[[Figures], int | None]) -> _Series:
    """The figure of each family, also of one where nothing has failed.

    Upstream's series are there once they have counted; but `increase()` does not see the first
    failures of a series that begins with them.
    """
    for family, plane in planes.items():
        value = pick(plane.figures()) if isinstance(plane, Counting) else None
        if value is not None:
            yield (family.value,), value


def _listeners(planes: Mapping[Family, Dataplane]) -> Reading:
    about = About(
        f"{_LISTENERS}listeners",
        Kind.GAUGE,
        "[ALPHA] Listeners for node ports of localhost",
        _FAMILY,
    )

    def read() -> _Series:
        for family, plane in planes.items():
            if isinstance(plane, Counting):
                yield (family.value,), plane.figures().listeners or 0

    return Reading(about, read)


def _accounted(name: str, help_: str, counter: str) -> Reading:
    def read() -> _Series:
        from kubeproxy.linux.nfacct import read_packets  # noqa: PLC0415  # of one mode only

        for packets in read_packets([counter]).values():
            yield (), packets

    return Reading(About(name, Kind.COUNTER, f"[ALPHA] {help_}"), read)


def _affinity_full(families: tuple[Family, ...]) -> _Series:
    from kubeproxy.dataplane.nftables.program import AFFINITY_FULL  # noqa: PLC0415  # one mode a run

    for family, _, packets in _counted(families, [AFFINITY_FULL]):
        yield (family.value,), packets


def _rejected(families: tuple[Family, ...]) -> _Series:
    from kubeproxy.dataplane.nftables.program import LOCALHOST_COUNTER  # noqa: PLC0415

    protocol_of = {name: protocol for protocol, name in LOCALHOST_COUNTER.items()}
    for family, name, packets in _counted(families, protocol_of):
        yield (family.value, protocol_of[name].name), packets


def _counted(
    families: tuple[Family, ...], names: Collection[str]
) -> Iterator[tuple[Family, str, int]]:
    """The packets of named counters of our tables."""
    from kubeproxy.dataplane.nftables.expressions import NFPROTO  # noqa: PLC0415
    from kubeproxy.dataplane.nftables.program import TABLE  # noqa: PLC0415
    from kubeproxy.linux.nfnetlink import read_counters  # noqa: PLC0415

    for family in families:
        for name, packets in read_counters(NFPROTO[family], TABLE, names).items():
            yield family, name, packets
