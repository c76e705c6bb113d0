"""What `kube-proxy plan` costs: reading the cluster, both sides, and the comparison.

The cluster is as the daemon hands it out. No kernel and no privileges are needed.

PYTHONPATH=tests python -m bench.plan 5000 30
"""

import resource
import sys
import time
from collections.abc import Callable
from typing import TypeVar

from bench.clusters import Size, endpoint_slice, objects, service_document
from bench.compiled import THIS_NODE
from kubeproxy.base.inet import Family
from kubeproxy.cluster.manifests.objects import ManifestObject
from kubeproxy.cluster.model.cluster import Cluster
from kubeproxy.cluster.objects.decode import decode
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.config.flags import parse_flags
from kubeproxy.config.load import complete
from kubeproxy.dataplane.modes import MODES, load_mode
from kubeproxy.plan.change import carry_out
from kubeproxy.plan.plan import make_plan
from kubeproxy.plan.side import Setup, Side, side
from kubeproxy.plan.wire import Plan

T = TypeVar("T")
ADDRESSES = {Family.IPV4: ("127.0.0.1", "198.51.100.10"), Family.IPV6: ("::1",)}


def timed(what: str, work: Callable[[], T]) -> T:
    """Do the work, and say how long it took on the clock and on the processor."""
    started, cpu = time.perf_counter(), time.process_time()
    result = work()
    took, used = time.perf_counter() - started, time.process_time() - cpu
    print(f"{what:<42} {took:7.2f} s {used:7.2f} s of CPU")
    return result


def setup(mode: str) -> Setup:
    loaded = complete(
        parse_flags([f"--proxy-mode={mode}", "--cluster-cidr=10.128.0.0/9"]), None, MODES
    )
    return Setup(loaded.config, loaded.gates, load_mode(mode), ADDRESSES)


def finished(before: Side, after: Side) -> Plan:
    steps = make_plan(before, after)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            found: Plan = done.value
            return found


def main(services: int, endpoints: int) -> None:
    cluster = Cluster(THIS_NODE.name)
    for kind, data in objects(Size(services, endpoints)):
        cluster.upsert(kind, decode(kind, data))
    print(f"{services} services x {endpoints} endpoints, {service_document(0)['spec']['type']}")  # type: ignore[index]  # a dict
    before = timed("one side", lambda: side(cluster, setup("iptables")))
    other = timed("the other, in nftables mode", lambda: side(cluster, setup("nftables")))
    moved = timed("plan of the mode, all services", lambda: finished(before, other))
    print(f"  {len(moved.services)} services, {moved.objects} objects")
    changed = decode(Kind.ENDPOINT_SLICE, endpoint_slice(0, endpoints - 1))
    list(carry_out(cluster, (), [ManifestObject(Kind.ENDPOINT_SLICE, changed, "", 1)]))
    after = timed("a side with one endpoint less", lambda: side(cluster, setup("iptables")))
    small = timed("plan of one endpoint", lambda: finished(before, after))
    print(f"  {len(small.services)} services, {small.objects} objects")
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main(*(int(each) for each in sys.argv[1:3]) if len(sys.argv) > 2 else (5000, 30))
