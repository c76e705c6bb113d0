"""The state of the cluster: its objects, what they mean on this node, and the sources of events.

A source is an API server (`watch`) or a directory of manifests (`manifests`). It delivers the
events of `events.py`, for each kind in order. Sources do not know what the objects mean: that is
in `model`.
"""
