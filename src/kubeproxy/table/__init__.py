"""The forwarding table: the contract between the cluster and the dataplanes.

In: service ports and endpoints. Out: entries (frontends, backends, policies), the difference
between two tables, and the verdict on a packet. Not here: Kubernetes objects, rules, I/O.
"""
