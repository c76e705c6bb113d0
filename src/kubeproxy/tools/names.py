"""The subcommands: their names, and the module of each, which is imported when it is called."""

import textwrap
from collections.abc import Mapping
from typing import Final

import msgspec


class Tool(msgspec.Struct, frozen=True):
    """A subcommand: a module of this package with `main` and `usage_text`."""

    module: str
    what: str


TOOLS: Final[Mapping[str, Tool]] = {
    "status": Tool("status.command", "is the running proxy well, and what do its syncs cost"),
    "services": Tool(
        "services.command",
        "its services: frontends, endpoints and why some are not used, connections",
    ),
    "top": Tool("top.command", "the busiest services, live"),
    "explain": Tool("explain", "where a packet goes, and why"),
    "trace": Tool("trace.command", "new connections of a service as they are made"),
    "diff": Tool("diff.command", "whether the kernel has what the running proxy means it to have"),
    "plan": Tool("plan.command", "what a change would do, before it is made"),
    "check": Tool("check.command", "would it work on this node, and what is missing"),
    "bundle": Tool("bundle.command", "all that a search for a fault needs, in one file"),
    "render": Tool("render", "the rules that would be programmed, as text"),
    "completion": Tool("shell.completion", "completion of command lines, for bash, zsh and fish"),
    "version": Tool("version", "which version this is, and which Kubernetes it follows"),
}


def tools_text(width: int) -> list[str]:
    """What there is beside the daemon, for its usage text, in lines that fit the width."""
    margin = 2 + max(map(len, TOOLS)) + 2
    lines = ["  kube-proxy COMMAND [flags]", "", "Commands (kube-proxy COMMAND --help):"]
    for name, tool in TOOLS.items():
        head = f"  {name}".ljust(margin)
        lines += textwrap.wrap(
            tool.what, width, initial_indent=head, subsequent_indent=" " * margin
        )
    return lines
