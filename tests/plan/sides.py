"""Sides of a plan, in few words: documents, a mode, and flags."""

from collections.abc import Iterable, Mapping, Sequence

from kubeproxy.base.inet import Family
from kubeproxy.cluster.model.cluster import Cluster
from kubeproxy.config.flags import parse_flags
from kubeproxy.config.load import complete
from kubeproxy.dataplane.modes import MODES, load_mode
from kubeproxy.plan.plan import make_plan
from kubeproxy.plan.side import Setup, Side, side
from kubeproxy.plan.wire import Plan, ServicePlan
from world import NODE_ADDRESSES, Mode, cluster_of

FLAGS = ("--cluster-cidr=10.64.0.0/14,fd40::/48",)
Documents = Iterable[Mapping[str, object]]


def setup_in(
    mode: Mode = Mode.NFTABLES,
    *flags: str,
    addresses: Mapping[Family, tuple[str, ...]] | None = NODE_ADDRESSES,
    config: str | None = None,
) -> Setup:
    """Kestrel in a mode."""
    given = () if config else (f"--proxy-mode={mode.value}", *(flags or FLAGS))
    loaded = complete(parse_flags(given), config, MODES)
    return Setup(loaded.config, loaded.gates, load_mode(loaded.config.mode), addresses)


def side_of(documents: Documents, setup: Setup | None = None) -> Side:
    return side(cluster_of(*documents), setup or setup_in())


def plan_of(
    before: Side, after: Side, listings: Sequence[str] = (), remarks: Sequence[str] = ()
) -> Plan:
    steps = make_plan(before, after, listings, remarks)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            found: Plan = done.value
            return found


def change_of(before: Documents, after: Documents, mode: Mode = Mode.NFTABLES) -> Plan:
    """The plan of other documents."""
    setup = setup_in(mode)
    return plan_of(side_of(before, setup), side_of(after, setup))


def switch_of(documents: Sequence[Mapping[str, object]], before: Mode, after: Mode) -> Plan:
    """The plan of another mode."""
    one, other = (side_of(documents, setup_in(each)) for each in (before, after))
    return plan_of(one, other)


def only(plan: Plan) -> ServicePlan:
    """The only Service of a plan."""
    assert len(plan.services) == 1
    return plan.services[0]


def empty() -> Cluster:
    return Cluster("kestrel")
