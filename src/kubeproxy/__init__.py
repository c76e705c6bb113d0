"""A drop-in kube-proxy.

The flow, top to bottom:

    source        API server (list and watch)     or     a directory of manifests
       |          Upsert, Delete, Reset, Synced
    objects       only the fields that we read, decoded once
       |
    model         service ports, endpoints of a service, our Node; which services an event touches
       |
    table         frontends -> backends                       <- decide(), explain, render
       |          the difference since the last sync
    dataplane     nftables, iptables, ipvs
       |          bytes
    netlink       how they are laid out
       |
    kernel        the sockets

`daemon` builds and wires the parts, `follow` carries events to the model, `sync` is the loop of
one IP family, `schedule` says when it is due, `flows` forgets stale UDP flows. `config` turns
flags and a file into one configuration, `nodefacts` that and our Node into what packets meet.
`commands` are the tools, `cli` finds them. docs/architecture.md has the rules.
"""
