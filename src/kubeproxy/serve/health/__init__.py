"""What load balancers and probes read of this node: healthy or not, and how many endpoints.

Observations and the forwarding table come in, HTTP answers go out. Nothing here influences a sync.
"""
