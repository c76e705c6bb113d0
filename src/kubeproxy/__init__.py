"""A drop-in kube-proxy.

The flow, top to bottom:

    cluster       API server or manifests -> events -> objects -> model
       |          which services an event touches
    table         frontends -> backends, with their policies      <- decide(), explain, render
       |          the difference since the last sync
    engine        when to sync, and the loop of each family
       |          an update
    dataplane     a folder for each mode: bytes or text for the kernel
       |
    linux         netlink layouts, sockets, programs, files

`app` builds and wires the parts, `serve` shows what they do, `explain` answers questions about
packets, `tools` are the subcommands, `config` turns flags and a file into one configuration.
docs/architecture.md has the words and the rules.
"""
