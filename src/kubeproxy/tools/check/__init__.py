"""What a node has and lacks for each mode, found out before a proxy runs on it.

Facts come in: what the kernel does when a mode is tried in a scratch network namespace, and what
can be read of the node. Findings go out, each with what to do. The node is not changed.

The edges: `scratch`, `host` and `sightings`; `command` runs all of them, and the checks in the
folders of the modes. All else is pure.
"""
