"""Whose virtual servers cannot be written."""

from kubeproxy.dataplane.ipvs.plan import Setup, plan
from kubeproxy.dataplane.ipvs.steps import steps
from kubeproxy.linux.netlink.ipvs import command_request
from kubeproxy.table.entries import Entry


def write_alone(setup: Setup, entry: Entry) -> None:
    """Write down all of an entry, to see whether that can be done."""
    part = plan(entry, setup)
    for key, server in (*part.servers.items(), *part.node_ports.items()):
        for command in steps(key, server, None, frozenset()).commands:
            command_request(0, command)
