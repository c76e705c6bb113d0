"""Objects to table: from JSON bytes in memory, and one endpoint changed at that size."""

import gc
import statistics
import sys
import time

from bench.clusters import NODE, Size, endpoint_slice, objects
from bench.processes import peak, resident
from kubeproxy.base.inet import Family
from kubeproxy.cluster.model.cluster import Cluster
from kubeproxy.cluster.objects.decode import decode
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.table.build import Builder
from kubeproxy.table.compile import Vantage


def main(size: Size) -> None:
    listed = objects(size)
    total = sum(len(data) for _, data in listed)
    gc.collect()
    gc.freeze()
    before = resident()
    started = time.perf_counter()
    cluster = Cluster(NODE)
    builder = Builder(Family.IPV4)
    for kind, data in listed:
        cluster.upsert(kind, decode(kind, data))
    decoded = time.perf_counter()
    vantage = Vantage(cluster.place, "192.0.2.1")
    changes = builder.update(cluster, (), vantage)
    compiled = time.perf_counter()
    assert len(changes.added) == size.services
    after = resident()
    print(
        f"{size}: {total / 1e6:.0f} MB JSON -> model {decoded - started:.2f} s, "
        f"-> table {compiled - decoded:.2f} s, together {compiled - started:.2f} s; "
        f"resident {after:.0f} MB with the JSON, {after - before:.0f} MB for model and table, "
        f"peak {peak():.0f} MB"
    )
    changes_ms = []
    for version in range(1, 201):
        data = endpoint_slice(version % size.services, size.endpoints, version=version)
        begun = time.perf_counter()
        touched = cluster.upsert(Kind.ENDPOINT_SLICE, decode(Kind.ENDPOINT_SLICE, data))
        difference = builder.update(cluster, [key for _, key in touched.services], vantage)
        changes_ms.append((time.perf_counter() - begun) * 1000)
        assert len(difference.changed) == 1
    cuts = statistics.quantiles(changes_ms, n=100)
    print(
        f"{size}: one endpoint changed, event to diff: "
        f"p50 {cuts[49]:.3f} ms, p99 {cuts[98]:.3f} ms"
    )


if __name__ == "__main__":
    main(Size(*map(int, sys.argv[1:3])))
