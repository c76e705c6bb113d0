"""What load balancers and probes learn of this node: healthy or not, and how many endpoints.

Happenings and the forwarding table come in, HTTP answers go out. Nothing here influences a sync.
"""
