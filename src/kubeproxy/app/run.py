"""The daemon's command line: configuration, then the one-shot flags, then the daemon."""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from kubeproxy.app.daemon import Daemon, log_notice
from kubeproxy.app.wiring import setup_of
from kubeproxy.base import gotext, klog, logstream
from kubeproxy.base.commit import commit
from kubeproxy.base.errors import OperatorError
from kubeproxy.base.version import VERSION
from kubeproxy.config import flags
from kubeproxy.config.flags import FLAGS, parse_flags, reported_version, version_text
from kubeproxy.config.flagset import Parsed, rendered
from kubeproxy.config.load import load, log_settings, write_config
from kubeproxy.config.validate import validate, validate_logging
from kubeproxy.dataplane.cleanup import clean_up
from kubeproxy.dataplane.modes import MODES
from kubeproxy.linux.machine import name_process, require_supported_machine
from kubeproxy.tools.names import tools_text

# Python's default, 700, is made for programs that throw most of their objects away. At the start
# nearly all are kept, and a tenth of the time went into looking for garbage among them.
_ALLOCATIONS_BETWEEN_COLLECTIONS = 50_000


def usage_text() -> str:
    """How to call the program: its commands, then the daemon's flags."""
    from kubeproxy.tools.command import usage_width  # noqa: PLC0415  # the daemon needs no tools

    width = usage_width()
    return flags.usage_text(width, tools_text(width))


def main(arguments: Sequence[str]) -> int:
    """Run the daemon, or what the flags ask for instead."""
    parsed = parse_flags(arguments)
    if parsed.value("help", bool):
        print(usage_text(), end="")  # noqa: T201  # what was asked for
        return 0
    version = parsed.value("version", str)
    if version in {"true", "raw"}:
        print(version_text(version, os.uname().machine, commit()))  # noqa: T201  # asked for
        return 0
    for line in parsed.deprecations:
        print(line, file=sys.stderr)  # noqa: T201  # upstream writes it plain, before logging
    content = _config_content(parsed)
    loaded = load(parsed, MODES)
    validate_logging(loaded.config.logging, loaded.gates)
    klog.configure(log_settings(loaded.config.logging))
    klog.bridge_logging()
    if not _is_for_people(parsed):
        logstream.install(klog.lost_line)
    for name, value in rendered(FLAGS, parsed).items():
        klog.plain(f"FLAG: --{name}={gotext.quote(value)}", v=1)
    for notice in loaded.notices:
        log_notice(notice)
    validate(loaded.config, loaded.gates, MODES)
    target = parsed.value("write-config-to", str)
    if target:
        write_config(target, loaded.config)
        klog.info("Wrote configuration", file=target)
        return 0
    require_supported_machine()
    if parsed.value("cleanup", bool):
        return _clean_up(dry_run=parsed.value("dry-run", bool))
    kubernetes = reported_version(version)
    klog.info("Version info", version=VERSION, commit=commit(), kubernetes=kubernetes)
    name_process("kube-proxy")
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)
    setup = setup_of(parsed, loaded, content)
    klog.info(
        "Following the cluster",
        source=setup.source_name,
        node=setup.node_name,
        mode=setup.config.mode,
    )
    return asyncio.run(_run_until_signal(Daemon(setup)))


def _is_for_people(parsed: Parsed) -> bool:
    """Whether a person waits for the output, who may read it slowly."""
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
