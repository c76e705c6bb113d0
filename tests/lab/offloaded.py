"""Connections that left the rules, as the distribution's tools see them."""

import re
import time

import pytest

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.nftables.fastpath import table
from kubeproxy.linux.netlink_socket import Refused
from kubeproxy.linux.nfnetlink import Nfnetlink
from lab.connection import Connection, Flow
from lab.namespaces import Namespace
from lab.outcome import Peer
from lab.stage import Lab

FLAG = "--nftables-fast-path"
SECONDS = 20.0
ENOUGH = 30
"""More packets than a connection may have before it leaves the rules."""


def why_none(node: Namespace) -> str:
    """Why this kernel has no flowtables, or ""."""
    with node.entered(), Nfnetlink() as kernel:
        try:
            kernel.rehearse(table.replacement(table.wanted((), 20)))
        except Refused as error:
            return str(error)
    return ""


def need_flowtables(node: Namespace) -> None:
    """Skip where the kernel has none: `make kernels` runs kernels that have them."""
    if why_not := why_none(node):
        pytest.skip(f"the kernel has no flowtables, those of `make kernels` have: {why_not}")


def listed(node: Namespace) -> str:
    """The table of the fast path, or "" where there is none."""
    return node.run(["sh", "-c", f"nft list table inet {table.TABLE} 2>/dev/null || true"])


def devices(node: Namespace) -> set[str]:
    """The devices of the flowtable that exist."""
    found = re.search(r"^\t\tdevices = \{(.*?)\}", listed(node), re.MULTILINE | re.DOTALL)
    names = {name.strip(' "\n\t') for name in found[1].split(",")} if found else set()
    return names & {line.split(":")[1].strip().partition("@")[0] for line in _links(node)}


def _links(node: Namespace) -> list[str]:
    return node.run(["ip", "-o", "link"]).splitlines()


def interfaces(node: Namespace) -> set[str]:
    """The names in the set of interfaces."""
    return set(re.findall(r'"(\S+?)"', listed(node)))


def run_with_fast_path(lab: Lab, *flags: str, **how: object) -> None:
    """Have the daemon run with it, and wait until its table is there."""
    lab.run(FLAG, *flags, **how)  # type: ignore[arg-type]  # as the caller's
    deadline = time.monotonic() + SECONDS
    while not listed(lab.network.node):
        assert time.monotonic() < deadline, lab.daemon.said()
        time.sleep(0.05)


def entries(node: Namespace, family: Family, protocol: Protocol) -> list[str]:
    """The tracked connections, a line each."""
    name = protocol.name.lower()
    command = ["conntrack", "-L", "-f", family.value.lower(), "-p", name]
    return node.run(command).splitlines()


def is_offloaded(node: Namespace, family: Family, protocol: Protocol, client: Peer) -> bool:
    """Whether the connection of that client is; it has to be tracked."""
    original = re.compile(rf"[^=]* src={client.address} dst=\S+ sport={client.port} ")
    (entry,) = filter(original.match, entries(node, family, protocol))
    return "[OFFLOAD]" in entry


def talk(opened: Connection | Flow, times: int = ENOUGH) -> None:
    """Send that often, and get an answer each time."""
    for _ in range(times):
        if isinstance(opened, Flow):
            assert opened.ask().who, "no answer"
        else:
            opened.talk()
