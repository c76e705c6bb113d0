"""The metrics of the fast path: whether connections take it, and how many do."""

from collections.abc import Iterable

from kubeproxy.dataplane.contract import FastPath
from kubeproxy.serve.metrics.families import Reading, Series, reading

NAME = "kubeproxy_fast_path"


def state_families(path: FastPath) -> list[Reading]:
    """Whether it is on, why not, and how many devices take part."""

    def is_on() -> Iterable[Series]:
        state = path.state
        return [((state.reason,), float(state.on))]

    return [
        reading(
            NAME,
            "[ALPHA] 1 if established connections leave the rules; else 0, and the reason",
            is_on,
            "reason",
        ),
        reading(
            f"{NAME}_devices",
            "[ALPHA] Network devices that take part in the fast path",
            lambda: float(len(path.state.devices)),
        ),
    ]


def connections_family(path: FastPath) -> Reading:
    """How many connections have left the rules; reads the kernel."""

    def counted() -> Iterable[Series]:
        return [((family.value,), float(n)) for family, n in path.connections().items()]

    return reading(
        f"{NAME}_connections",
        "[ALPHA] Connections that have left the rules and are forwarded by a flowtable",
        counted,
        "ip_family",
    )
