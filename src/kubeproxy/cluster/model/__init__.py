"""What the cluster's objects mean on this node.

Objects become service ports and endpoints; which endpoints are usable, and why; and which
services an event touches. Frontends and packets are in `table`.
"""
