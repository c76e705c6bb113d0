"""How many connections each service has had, from the kernel's own counters.

Readings of a dataplane that counts come in; totals that never go back, rates, and samples for
Prometheus go out. Counters are read on request only, and nothing here writes to the kernel.
"""
