"""What ipvs mode does otherwise than the policies say."""

from kubeproxy.table.quirks import Quirks

QUIRKS = Quirks(
    one_list=True,
    uses_remote=True,
    always_rejects=True,
    link_local_node_ports=False,
    binds_addresses=True,
    rewrites_loopback=False,
    rewrites_by_set=True,
)
