"""The fast path of nftables mode: established connections leave the rules. See docs/fast-path.md.

A table of its own tells the kernel to forward further packets of a connection by a flowtable, from
the device where they arrive. `table` has its messages, `choice` says which devices take part,
`path` keeps it as it should be.
"""
