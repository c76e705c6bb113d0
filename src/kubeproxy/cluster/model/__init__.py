"""What the cluster's objects mean on this node.

Comes in: objects. Goes out: service ports, endpoints, which of them may be used and why, and
which services an event touches. Never here: frontends, packets, kernels, I/O.
"""
