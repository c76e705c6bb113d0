"""The subcommands: each is a module beside this one, imported when it is called."""

from collections.abc import Mapping
from typing import Final

TOOLS: Final[Mapping[str, str]] = {
    "status": "is the running proxy well, and what do its syncs cost",
    "services": "its services: frontends, endpoints and why some are not used, connections",
    "top": "the busiest services, live",
    "explain": "where a packet goes, and why",
    "trace": "new connections of a service as they are made",
    "diff": "whether the kernel has what the running proxy means it to have",
    "check": "would it work on this node, and what is missing",
    "render": "the rules that would be programmed, as text",
}


def tools_text() -> str:
    """What there is beside the daemon, for its usage text."""
    lines = (f"  {name:<9} {what}" for name, what in TOOLS.items())
    head = "Commands, instead of running the proxy (kube-proxy COMMAND --help):"
    return "\n".join((head, *lines)) + "\n"
