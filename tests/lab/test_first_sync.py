"""A daemon whose first sync fails: health, status and metrics say so, and alerts fire."""

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.promtool import expect_firing
from lab.alone import be_kestrel
from lab.namespaces import Namespace
from lab.page import HEALTH
from lab.running import Running
from serve.metrics.exposed import described
from serve.metrics.table import rows
from world import Mode

MODES = pytest.mark.parametrize(
    "mode", [Mode.NFTABLES, Mode.IPTABLES], ids=lambda mode: mode.value
)
ALERT_OF = {
    Mode.NFTABLES: "KubeProxyNftablesSyncFails",
    Mode.IPTABLES: "KubeProxyIptablesRestoreFails",
}
COUNTER_OF = {
    Mode.NFTABLES: "kubeproxy_sync_proxy_rules_nftables_sync_failures_total",
    Mode.IPTABLES: "kubeproxy_sync_proxy_rules_iptables_restore_failures_total",
}
KUBE_PROXY = (sys.executable, "-m", "kubeproxy")
TARGET = 'job="kube-proxy",instance="kestrel"'
_SAMPLE = re.compile(r"(?P<name>\w+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")


@pytest.fixture
def node(_own_namespaces: None) -> Iterator[Namespace]:
    """A network in which nothing else runs."""
    node = Namespace("first-sync")
    be_kestrel(node)
    yield node
    node.close()


@pytest.fixture
def running(node: Namespace, mode: Mode, tmp_path: Path) -> Iterator[Running]:
    """A daemon that is not started yet."""
    running = Running(node, mode, tmp_path)
    yield running
    running.daemon.stop()


@contextlib.contextmanager
def refusing(node: Namespace, mode: Mode, directory: Path) -> Iterator[None]:
    """Have nothing of IPv4 be written: another process owns the table, or the tool fails."""
    if mode is Mode.IPTABLES:
        tool = directory / "iptables-restore"
        tool.write_text("#!/bin/sh\necho refused >&2\nexit 1\n")
        tool.chmod(0o755)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
            yield
        return
    with node.entered():
        owner = subprocess.Popen(["nft", "-i"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert owner.stdin is not None
    with owner:
        owner.stdin.write(b"add table ip kube-proxy { flags owner; }\n")
        owner.stdin.flush()
        wait(lambda: "owner" in node.run(["nft", "list", "ruleset"]), "the table has no owner")
        yield


def wait(right: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not right():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def status(running: Running, path: str) -> int:
    """The answer of the health port; 0 while nothing listens."""
    with contextlib.suppress(ConnectionRefusedError):
        return running.get(path, HEALTH)[0]
    return 0


class Scrape:
    """What Prometheus gets, with its clock at 0 when the first of a test is made."""

    def __init__(self, running: Running, start: float) -> None:
        _, self.text = running.get("/metrics")
        self.kinds = {name: kind for name, (kind, _) in described(self.text).items()}
        matches = (_SAMPLE.fullmatch(line) for line in self.text.splitlines())
        self.values: dict[tuple[str, str], float] = {}
        for match in filter(None, matches):
            name, labels, value = match["name"], match["labels"], float(match["value"])
            shifted = value - start if value and name.endswith("_timestamp_seconds") else value
            self.values[name, f"{TARGET},{labels}" if labels else TARGET] = shifted


def as_series(first: Scrape, second: Scrape) -> dict[str, str]:
    """Half an hour and more of this: what was counted goes on, everything else stays."""
    found = {f"up{{{TARGET}}}": "1x80"}
    for (name, labels), value in second.values.items():
        before = first.values.get((name, labels))
        grows = second.kinds.get(name) != "gauge"
        if before is None:
            values = f"_ {value:f}x79"
        elif grows:
            values = f"{before:f}+{value - before:f}x80"
        else:
            values = f"{before:f} {value:f}x79"
        found[f"{name}{{{labels}}}"] = values
    return found


@MODES
def test_health_status_and_alerts_report_it(
    node: Namespace, mode: Mode, running: Running, tmp_path: Path
) -> None:
    with refusing(node, mode, tmp_path):
        running.launch("--iptables-sync-period=1s")
        wait(lambda: status(running, "/livez") == 200, "it does not listen")
        start = time.time()
        first = Scrape(running, start)
        wait(lambda: status(running, "/livez") == 503, "it stays healthy")
        code, body = running.get("/healthz", HEALTH)
        families = json.loads(body)["status"]
        assert (
            code,
            families["IPv4"]["healthy"],
            families["IPv6"]["healthy"],
        ) == (503, False, True)
        failures = (COUNTER_OF[mode], f'{TARGET},ip_family="IPv4"')
        wait(lambda: Scrape(running, start).values[failures] > 3, "nothing fails")
        second = Scrape(running, start)
        printed = subprocess.run(
            [*KUBE_PROXY, "status", "--socket", str(running.daemon.socket)],
            capture_output=True,
            text=True,
            check=False,
        )
    assert printed.returncode == 1
    assert re.search(r"^IPv4 +UNHEALTHY ", printed.stdout, re.MULTILINE)
    assert re.search(r"^IPv6 +healthy ", printed.stdout, re.MULTILINE)
    expected = ["KubeProxyNeverSynced", ALERT_OF[mode], "KubeProxyUnhealthy"]
    expect_firing(tmp_path, as_series(first, second), 20, expected)


@MODES
def test_what_is_always_shown_is_there_before_the_first_good_sync(
    node: Namespace, mode: Mode, running: Running, tmp_path: Path
) -> None:
    with refusing(node, mode, tmp_path):
        running.launch()
        wait(lambda: status(running, "/livez") == 200, "it does not listen")
        shown = described(running.get("/metrics")[1])
    due = {row.name for row in rows() if row.is_in(mode, localhost=True) and row.shown == "always"}
    assert due - shown.keys() == set()


@MODES
def test_of_a_daemon_that_is_well_no_alert_fires(running: Running, tmp_path: Path) -> None:
    running.start()
    start = time.time()
    first = Scrape(running, start)
    running.change()
    assert {status(running, path) for path in ("/livez", "/healthz")} == {200}
    expect_firing(tmp_path, as_series(first, Scrape(running, start)), 35, [])
