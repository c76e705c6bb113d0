"""What a node has and lacks for each mode, found out before a proxy runs on it.

Facts come in: what the kernel does when it is tried in a scratch network namespace, and what can
be read of the node. Findings go out, each with what to do. Nothing of the node is changed.

Pure: `finding`, `judge`, `sample`, `suspects`, `modules`, `rights`, `rivals`, `sysctls`, `ports`.
The edges: `scratch` with its trials (`conntrack`, `nftables`, `iptables`, `ipvs`), `host` and
`sightings`; `survey` has all of them look.
"""
