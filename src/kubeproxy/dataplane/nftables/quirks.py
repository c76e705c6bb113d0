"""What nftables mode does otherwise than the policies say."""

from kubeproxy.table.quirks import Loopback, Quirks

QUIRKS = Quirks(
    loopback_node_ports=Loopback.PROXY,
    rejects_undefined_ports=True,
    drops_unallocated=True,
    heals=True,
)
