"""Where the cluster's state comes from: an API server, or a directory of manifests.

Comes in: HTTP answers or files. Goes out: the events of `events.py`, for each kind in order.
Never here: what the objects mean.
"""
