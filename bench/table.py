"""Objects to table: from JSON bytes in memory, and one endpoint changed at that size."""

import gc
import statistics
import sys
import time
from itertools import islice

from bench.clusters import Size, objects
from bench.compiled import Compiled
from bench.processes import peak, resident


def main(size: Size) -> None:
    listed = objects(size)
    total = sum(len(data) for _, data in listed)
    gc.collect()
    gc.freeze()
    before = resident()
    compiled = Compiled(size, listed)
    assert len(compiled.first.added) == size.services
    to_model, to_table = compiled.seconds
    after = resident()
    print(
        f"{size}: {total / 1e6:.0f} MB JSON -> model {to_model:.2f} s, "
        f"-> table {to_table:.2f} s, together {to_model + to_table:.2f} s; "
        f"resident {after:.0f} MB with the JSON, {after - before:.0f} MB for model and table, "
        f"peak {peak():.0f} MB"
    )
    milliseconds = []
    for event in islice(compiled.events(), 200):
        begun = time.perf_counter()
        update = compiled.change(event)
        milliseconds.append((time.perf_counter() - begun) * 1000)
        assert len(update.changes.changed) == 1
    cuts = statistics.quantiles(milliseconds, n=100)
    print(
        f"{size}: one endpoint changed, event to diff: "
        f"p50 {cuts[49]:.3f} ms, p99 {cuts[98]:.3f} ms"
    )


if __name__ == "__main__":
    main(Size(*map(int, sys.argv[1:3])))
