"""The forwarding table: the contract between the cluster and the dataplanes.

Comes in: service ports and endpoints. Goes out: entries (frontends and their backends), the
difference between two tables, and the verdict on a packet. Never here: objects, kernels, I/O.
"""
