"""The daemon's command line: configuration first, then the one-shot modes, then the daemon."""

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from kubeproxy.app.daemon import Daemon, Setup, log_notice
from kubeproxy.base import gotext, klog, logstream
from kubeproxy.base.errors import KernelError, OperatorError
from kubeproxy.base.inet import Family
from kubeproxy.cluster.client.observed import Observe
from kubeproxy.cluster.source import EventSource
from kubeproxy.config import flags
from kubeproxy.config.flags import FLAGS, parse_flags
from kubeproxy.config.flagset import Parsed, rendered
from kubeproxy.config.load import Loaded, load, log_settings, node_name, write_config
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.config.validate import validate, validate_logging
from kubeproxy.config.version_flag import reported_version, version_text
from kubeproxy.dataplane.cleanup import clean_up, remove_other_modes
from kubeproxy.dataplane.contract import Dataplane
from kubeproxy.dataplane.dryrun import DryRun
from kubeproxy.dataplane.nftables.apply import Nftables, Settings
from kubeproxy.dataplane.nftables.guard import Guard
from kubeproxy.dataplane.nftables.probe import check_release, probe
from kubeproxy.engine.apply_settings import prepare_machine
from kubeproxy.linux.machine import supported_families
from kubeproxy.linux.nfnetlink import Nfnetlink
from kubeproxy.serve.events.recorder import Recorder
from kubeproxy.serve.metrics.client import ClientMetrics
from kubeproxy.table.node import Mode, Node
from kubeproxy.tools.names import tools_text

# Python's default, 700, is made for programs that throw most of their objects away. At the start
# we keep nearly all, and a tenth of the time went into looking for garbage among them.
_ALLOCATIONS_BETWEEN_COLLECTIONS = 50_000


def usage_text() -> str:
    """How to call the daemon, and what there is beside it."""
    return f"{flags.usage_text()}\n{tools_text()}"


def main(arguments: Sequence[str]) -> int:
    """Run the daemon, or what the flags ask for instead."""
    parsed = parse_flags(arguments)
    if parsed.value("help", bool):
        print(usage_text(), end="")  # noqa: T201  # what was asked for
        return 0
    version = parsed.value("version", str)
    text = version_text(version, os.uname().machine)
    if text is not None:
        print(text)  # noqa: T201  # what was asked for
        return 0
    for line in parsed.deprecations:
        print(line, file=sys.stderr)  # noqa: T201  # upstream writes it plain, before logging
    content = _config_content(parsed)
    loaded = load(parsed)
    validate_logging(loaded.config.logging, loaded.gates)
    klog.configure(log_settings(loaded.config.logging))
    klog.bridge_logging()
    if not _is_for_people(parsed):
        logstream.install(klog.lost_line)
    for name, value in rendered(FLAGS, parsed).items():
        klog.plain(f"FLAG: --{name}={gotext.quote(value)}", v=1)
    for notice in loaded.notices:
        log_notice(notice)
    validate(loaded.config, loaded.gates)
    target = parsed.value("write-config-to", str)
    if target:
        write_config(target, loaded.config)
        klog.info("Wrote configuration", file=target)
        return 0
    if parsed.value("cleanup", bool):
        return _clean_up(dry_run=parsed.value("dry-run", bool))
    klog.info("Version info", version=reported_version(version))
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)
    return asyncio.run(_run_until_signal(Daemon(_setup(parsed, loaded, content))))


def _is_for_people(parsed: Parsed) -> bool:
    """Whether somebody waits for the output, and may read it at leisure."""
    asked = ("write-config-to", "cleanup", "dry-run")
    return any(parsed.value(flag, object) for flag in asked)


def _clean_up(*, dry_run: bool) -> int:
    if dry_run:
        raise OperatorError("--cleanup removes, and --dry-run changes nothing: give one of them")
    if not clean_up():
        klog.info("There is nothing to remove")
    return 0


def _config_content(parsed: Parsed) -> bytes:
    """The config file as it is now; a change from here on restarts the daemon."""
    try:
        return Path(parsed.value("config", str)).read_bytes()
    except OSError:
        return b""  # loading says what is wrong with it


def _setup(parsed: Parsed, loaded: Loaded, content: bytes) -> Setup:
    host = socket.gethostname()
    name = node_name(loaded.config, host)
    manifests = parsed.value("manifests", tuple)
    mode = Mode(loaded.config.mode)
    dry_run = parsed.value("dry-run", bool)

    guard = Guard()

    def dataplane(family: Family) -> Dataplane:
        if dry_run:
            return DryRun(mode)
        if mode is Mode.IPTABLES:
            return _iptables(family, loaded.config)
        if mode is Mode.IPVS:
            return _ipvs(family, loaded.config)
        return _nftables(family, loaded.config, guard)

    client = ClientMetrics()
    source, source_name = _source(parsed, loaded, name, client.take)
    init_only = parsed.value("init-only", bool)
    prepare = partial(prepare_machine, loaded.config, init_only=init_only)

    return Setup(
        config=loaded.config,
        gates=loaded.gates,
        node_name=name,
        source=source,
        families=_families(mode, dry_run=dry_run),
        dataplane=dataplane,
        cleans_flows=not dry_run,
        waits_for_node=not manifests,
        config_file=parsed.value("config", str),
        config_content=content,
        init_only=init_only,
        serves=not dry_run,
        flags=rendered(FLAGS, parsed),
        metrics=tuple(client.families()),
        source_name=source_name,
        prepare=None if dry_run else prepare,
        # New rules first, then the old ones away: between them no connection finds neither.
        remove_other_modes=None if dry_run else partial(remove_other_modes, mode),
        recorder=Recorder(host, None if dry_run else source.write),
    )


def _nftables(family: Family, config: KubeProxyConfiguration, guard: Guard) -> Dataplane:
    """One family of nftables mode, after asking the kernel whether it can do that."""
    if not os.environ.get("KUBE_PROXY_NFTABLES_SKIP_KERNEL_VERSION_CHECK"):
        check_release(os.uname().release)
    kernel = Nfnetlink()
    probe(kernel, Node(family))
    ours = config.nftables
    settings = Settings(config.masquerade_bit, ours.endpoint_counters, ours.affinity_size)
    return Nftables(family, settings, kernel, guard)


def _families(mode: Mode, *, dry_run: bool) -> tuple[Family, ...]:
    """The families that this machine speaks, and for which it has what the mode needs.

    Where it has that for none, the error says why.
    """
    families = supported_families()
    if mode is Mode.NFTABLES or dry_run:
        return families
    from kubeproxy.linux.xtables import Xtables  # noqa: PLC0415  # of two modes only

    usable = []
    failures = []
    for family in families:
        try:
            Xtables(family).check()
        except KernelError as error:
            klog.error("The IP family is not served", err=error, ipFamily=family.value)
            failures.append(error)
        else:
            usable.append(family)
    if not usable:
        raise failures[0]
    return tuple(usable)


def _iptables(family: Family, config: KubeProxyConfiguration) -> Dataplane:
    from kubeproxy.dataplane.iptables.apply import Iptables  # noqa: PLC0415  # one mode a run
    from kubeproxy.dataplane.iptables.apply import Settings as Tuning  # noqa: PLC0415
    from kubeproxy.linux.xtables import Xtables  # noqa: PLC0415

    tuning = Tuning(config.masquerade_bit, config.sync_period.seconds)
    return Iptables(family, tuning, Xtables(family))


def _ipvs(family: Family, config: KubeProxyConfiguration) -> Dataplane:
    """One family of ipvs mode, after seeing to what the kernel needs for it."""
    from kubeproxy.dataplane.ipvs.apply import Ipvs  # noqa: PLC0415
    from kubeproxy.dataplane.ipvs.prepare import prepare  # noqa: PLC0415
    from kubeproxy.engine.ipvs_settings import ipvs_settings  # noqa: PLC0415  # one mode a run
    from kubeproxy.linux.ipvs import Ipvs as VirtualServers  # noqa: PLC0415
    from kubeproxy.linux.xtables import Xtables  # noqa: PLC0415

    servers = VirtualServers()
    prepare(servers, ipvs_settings(config), os.uname().release)
    return Ipvs(family, ipvs_settings(config), servers, Xtables(family))


def _source(
    parsed: Parsed, loaded: Loaded, name: str, observe: Observe
) -> tuple[EventSource, str]:
    """Manifests when they are given, else the API server; and what people call it."""
    manifests = parsed.value("manifests", tuple)
    if manifests:
        from kubeproxy.cluster.manifests.source import Manifests  # noqa: PLC0415  # either or

        return Manifests(manifests, name), f"manifests in {', '.join(manifests)}"
    from kubeproxy.cluster.client.http_client import RateLimit  # noqa: PLC0415
    from kubeproxy.cluster.client.kubeconfig import find_access  # noqa: PLC0415
    from kubeproxy.cluster.watch import apiserver  # noqa: PLC0415  # costly to import

    client = loaded.config.client_connection
    access = find_access(client.kubeconfig, parsed.value("master", str), os.environ)
    settings = apiserver.WatchSettings(
        node_name=name,
        watch_list=loaded.gates.enabled("WatchListClient"),
        rate_limit=RateLimit(client.qps, client.burst),
    )
    source = apiserver.ApiServer(access, settings, observe=observe)
    return source, f"API server {access.server}"


async def _run_until_signal(daemon: Daemon) -> int:
    """Run; the first signal ends the daemon in order, the second at once."""
    received: list[signal.Signals] = []
    running = asyncio.ensure_future(daemon.run())

    def stop(number: signal.Signals) -> None:
        if received:
            klog.flush()
            os._exit(128 + number)
        received.append(number)
        klog.info("Stopping; the rules stay as they are", signal=number.name)
        running.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    try:
        await running
    except asyncio.CancelledError:
        if not received:
            raise
        return 128 + received[0]
    return 0
