"""What a daemon would answer that does not: its services and tables, made here from the cluster.

A daemon that was killed leaves its rules in the kernel, and traffic goes on. The answers come from
the pages of the daemon itself, which get the state that a new one would have on this machine.
"""

import asyncio
import time
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec.structs import replace

from kubeproxy.base.errors import KernelError, NoDaemonError
from kubeproxy.base.inet import Family
from kubeproxy.config.flagset import Parsed
from kubeproxy.config.load import Loaded, load
from kubeproxy.config.validate import validate
from kubeproxy.dataplane.dryrun import DryRun
from kubeproxy.dataplane.modes import MODES, load_mode
from kubeproxy.linux.links import interface_addresses
from kubeproxy.linux.machine import why_no_ipv6
from kubeproxy.serve.http.access import SOCKET_PEER
from kubeproxy.serve.http.answer import Answer
from kubeproxy.serve.http.request import Request
from kubeproxy.serve.routes import Listeners, router, status_routes
from kubeproxy.serve.status.history import FamilyHistory
from kubeproxy.serve.status.live import Live
from kubeproxy.serve.status.state import FamilyState, State
from kubeproxy.tools import client
from kubeproxy.tools.check.host import own_rights, programs
from kubeproxy.tools.check.sightings import sightings
from kubeproxy.tools.command import note
from kubeproxy.tools.snapshot import NoCluster, compiled_families, read_snapshot

_ACCEPT: Final = {"accept": "application/json"}


def state_instead(parsed: Parsed, no_daemon: NoDaemonError | None) -> State:
    """What a daemon would have that does not answer, or is not asked."""
    mode = kernels_mode()
    try:
        state = offline_state(parsed, mode)
    except NoCluster as error:
        if no_daemon is None:
            raise
        lines = [str(no_daemon), rules_text(mode), f"Else {error}."]
        raise type(no_daemon)("\n".join(line for line in lines if line)) from error
    if no_daemon is not None:
        note(str(no_daemon).partition("\n")[0].rstrip(":"))
    note(f"{rules_text(mode)} This is what a daemon would serve, from the cluster".strip())
    return state


def kernels_mode() -> str:
    """The mode whose rules the kernel has; "" when there are none, of several, or none to see."""
    try:
        seen = sightings(programs(tuple(Family)).kind, administers=own_rights().administers)
    except (KernelError, OSError):
        return ""
    found = [mode for mode, leftovers in seen.leftovers.items() if leftovers]
    return found[0] if len(found) == 1 else ""


def rules_text(mode: str) -> str:
    """What the kernel has without a daemon; "" where that is not known."""
    if not mode:
        return ""
    return f"The kernel still has the rules of {mode} mode: traffic follows them as they are."


def offline_state(parsed: Parsed, mode: str) -> State:
    """What a daemon that starts now would have, with the rules of the kernel's mode."""
    loaded = load(parsed, MODES)
    validate(loaded.config, loaded.gates, MODES)
    if mode and not parsed.given & {"proxy-mode", "config"}:
        loaded = replace(loaded, config=replace(loaded.config, mode=mode))
    return _state(parsed, loaded)


def _state(parsed: Parsed, loaded: Loaded) -> State:
    snapshot = read_snapshot(parsed, loaded)
    for remark in snapshot.remarks:
        note(remark)
    mode, now = load_mode(loaded.config.mode), time.time()

    def family_state(family: Family) -> FamilyState:
        node, builder = compiled[family]
        return FamilyState(
            family=family,
            builder=builder,
            node=replace(node, addresses=interface_addresses(family, mode.device)),
            failed={},
            failure="",
            healthy=False,
            waiting=None,
            history=FamilyHistory(),
            dataplane=DryRun(mode),
        )

    compiled = compiled_families(loaded, snapshot)
    if why_no_ipv6():
        del compiled[Family.IPV6]
    return State(
        config=loaded.config,
        mode=mode,
        config_file=parsed.value("config", str),
        source="the cluster, without a daemon",
        started=now,
        now=now,
        cluster=snapshot.cluster,
        families={family: family_state(family) for family in compiled},
        counts_connections=False,
        healthy=False,
        eligible=False,
        gaps=(),
        ignored=(),
        remains=(),
    )


def answered(state: State, target: str) -> bytes:
    """What a daemon with that state would answer."""
    return asyncio.run(_answered(state, target))


async def _answered(state: State, target: str) -> bytes:
    """What the daemon's own page for a path says about the state."""
    url = urlsplit(target)
    pairs = tuple(parse_qsl(url.query, keep_blank_values=True))
    query = dict(reversed(pairs))
    path = unquote(url.path)
    request = Request("GET", path, query, _ACCEPT, peer=SOCKET_PEER, pairs=pairs)
    page = router(status_routes(state.config, Live(lambda: state)), Listeners.SOCKET)
    made = page(request)
    answer = made if isinstance(made, Answer) else await made
    body = answer.body
    if not isinstance(body, bytes):
        body = b"".join([piece async for piece in body])
    return client.body_of(answer.status, dict(answer.headers).get("Content-Type", ""), body)
