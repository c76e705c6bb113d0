"""What some service ports have in the kernel, in the words of `ipset` and `ipvsadm`."""

from collections.abc import Sequence

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.ipvs.names import set_name
from kubeproxy.dataplane.ipvs.plan import Part
from kubeproxy.dataplane.ipvs.render import server_lines


def shown(parts: Sequence[Part], family: Family) -> str:
    """Their members of sets, as `ipset save` lists them, and their virtual servers, as ipvsadm."""
    members = dict.fromkeys(member for part in parts for member in part.members)
    lines = [f"add {set_name(set_, family)} {member}\n" for set_, member in members]
    servers = {key: s for part in parts for key, s in (part.node_ports | part.servers).items()}
    if not servers:
        return ""
    return "".join(("# ipset save\n", *lines, "# ipvsadm -S -n\n", *server_lines(servers)))
