"""What iptables mode does otherwise than the policies say."""

from kubeproxy.table.quirks import Loopback, Quirks

QUIRKS = Quirks(
    hairpin_by_address=True,
    loopback_node_ports=Loopback.KERNEL,
    refuses_on_all_addresses=True,
    checks_output=False,
    firewalls_idle=False,
)
