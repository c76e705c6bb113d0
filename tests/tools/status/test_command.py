"""`kube-proxy status` as people call it, with a daemon that reports what a test wants."""

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from fakes.daemon import FakeDaemon, always, serving
from kubeproxy.app.cli import main
from kubeproxy.serve.status.wire import ConntrackState, DaemonStatus, FamilyStatus, ForeignChanges
from kubeproxy.tools.layout import Display, painted
from kubeproxy.tools.status.view import screen
from tools import reported


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[FakeDaemon]:
    with serving(
        FakeDaemon({"/status": always(reported.status())}), tmp_path / "socket"
    ) as daemon:
        yield daemon


WELL = """\
kube-proxy is well on node kestrel: nftables mode, up 1 h 0 min

version  kubeproxy 0.9.0 (commit 0123456789ab), Kubernetes v1.38.0
process  4711, since 2026-09-01T10:59:59.000Z
memory   45 MB
CPU      7.2 s, 0.2 % of a core since the start
source   manifests in /etc/shop
health   0.0.0.0:10256
metrics  127.0.0.1:10249

FAMILY  HEALTH   SERVICES  PORTS  FRONTENDS  ENDPOINTS  SYNCS  FAILED
IPv4    healthy         3      4      1,210         12     14       0
IPv6    healthy         3      4      1,210         12     14       0

FAMILY  SYNC               ENDED    TOOK  OUTCOME  SERVICE PORTS  WRITTEN
IPv4    last             2 s ago  1.3 ms  ok       1 changed            2
IPv4    last full  1 h 0 min ago   20 ms  ok       3 added             41
IPv6    last             2 s ago  1.3 ms  ok       1 changed            2
IPv6    last full  1 h 0 min ago   20 ms  ok       3 added             41
"""


def test_all_is_well(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--socket", daemon.socket]) == 0
    assert capsys.readouterr() == (WELL, "")


def test_what_is_tracked_and_when_the_server_was_heard() -> None:
    status = replace(
        reported.status(),
        source="API server https://192.0.2.1:6443",
        source_silent_seconds=12.0,
        conntrack=ConntrackState(8120, 131_072),
    )
    lines = [painted(each, Display(80)).rstrip() for each in screen(status, 80)]
    assert "source   API server https://192.0.2.1:6443, last heard 12 s ago" in lines
    assert "tracking 8,120 of 131,072 connections, 6 %" in lines


def test_what_others_changed_since_the_start() -> None:
    changed = replace(
        reported.family(), foreign_changes=ForeignChanges(3, 0, 0.0, 900.0, "nft", 7)
    )
    lines = [painted(each, Display(80)).rstrip() for each in screen(reported.status(changed), 80)]
    assert "repaired IPv4: 3 changes by others since the start" in lines


def test_for_programs(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--socket", daemon.socket, "-o", "json"]) == 0
    out, err = capsys.readouterr()
    assert (reported.status(), "") == (msgspec.json.decode(out, type=DaemonStatus), err)
    assert out.startswith('{\n  "version": "0.9.0",\n')
    assert "ipFamily" in json.loads(out)["families"][0]


def test_connections_that_failed() -> None:
    failing = replace(reported.family(), failed_connections=1)
    quiet = replace(reported.family("IPv6"), failed_connections=0)
    lines = shown(reported.status(failing, quiet))
    assert "failures IPv4: 1 connection in the last minute" in lines
    assert len(lines) == len(WELL.splitlines()) + 1


def shown(status: DaemonStatus, width: int | None = None) -> list[str]:
    return [painted(each, Display(width)).rstrip() for each in screen(status, width)]


def head(status: DaemonStatus, width: int | None = None) -> list[str]:
    lines = shown(status, width)
    return lines[: lines.index("")]


UNWELL = replace(
    reported.family(),
    healthy=False,
    failures=3,
    last_sync=replace(reported.LAST, outcome="failed"),
    waiting_seconds=63.0,
)


@pytest.mark.parametrize(
    ("family", "expected", "code"),
    [
        pytest.param(
            replace(reported.family(), last_sync=replace(reported.LAST, outcome="failed")),
            "IPv4: the last sync failed",
            1,
            id="a-failed-sync",
        ),
        pytest.param(
            replace(reported.family(), healthy=False),
            "IPv4: not healthy",
            1,
            id="an-unhealthy-family",
        ),
        pytest.param(
            replace(reported.family(), last_sync=None, last_full_sync=None),
            "IPv4: nothing is programmed yet by this process",
            1,
            id="before-the-first-sync",
        ),
        pytest.param(
            replace(reported.family(), not_programmed=(reported.REFUSED,)),
            "shop/cart:http TCP: the kernel has no SCTP",
            1,
            id="a-port-that-the-kernel-refuses",
        ),
        pytest.param(
            replace(reported.family(), conflicts=(reported.TWICE,)),
            "203.0.113.7:80/TCP: served by shop/cart:http, and not by shop/till:http",
            0,
            id="a-conflict-is-the-clusters-mistake",
        ),
        pytest.param(
            replace(reported.family(), waiting_seconds=20.0),
            "IPv4: changes have waited 20 s to be programmed",
            0,
            id="something-waits-and-is-not-late-yet",
        ),
    ],
)
def test_what_is_wrong_comes_first(
    daemon: FakeDaemon,
    capsys: pytest.CaptureFixture[str],
    family: FamilyStatus,
    expected: str,
    code: int,
) -> None:
    daemon.pages["/status"] = always(reported.status(family, reported.family("IPv6")))
    assert code == main(["status", "--socket", daemon.socket])
    first, _, _ = capsys.readouterr().out.partition("\n\n")
    assert expected in [line.strip() for line in first.splitlines()]
    assert ("NOT well" if code else "is well") in first.splitlines()[0]
    assert code == main(["status", "--socket", daemon.socket, "-o", "json"])


def test_a_node_that_load_balancers_should_not_use() -> None:
    lines = head(replace(reported.status(), node_eligible=False))
    assert "  Node kestrel fails the health check of load balancers" in lines


def test_of_very_many_troubles_the_first_are_shown() -> None:
    many = tuple(replace(reported.REFUSED, service_port=f"shop/s{n}") for n in range(45))
    lines = head(reported.status(replace(reported.family(), not_programmed=many)))
    assert "    shop/s19 TCP: the kernel has no SCTP" in lines
    assert "    shop/s20 TCP: the kernel has no SCTP" not in lines
    assert "    and 25 more (-o json has all)" in lines


def test_sentences_are_wrapped_and_not_cut() -> None:
    lines = head(reported.status(UNWELL), 60)
    assert max(map(len, lines)) <= 60
    assert not any("…" in line for line in lines[1:])
    advice = " ".join(line.strip() for line in lines)
    assert "so that load balancers leave this node out." in advice


def test_a_sync_that_is_both_and_one_that_changed_nothing() -> None:
    first = replace(reported.FULL, added=0, written=0)
    lines = shown(
        reported.status(replace(reported.family(), last_sync=first, last_full_sync=first))
    )
    assert lines[-1] == "IPv4    last, full  1 h 0 min ago  20 ms  ok       as before            0"


def test_a_sync_of_many() -> None:
    many = replace(reported.FULL, added=8000, written=64001)
    lines = shown(reported.status(replace(reported.family(), last_sync=many, last_full_sync=many)))
    assert lines[-1].endswith("  8,000 added     64,001")


def test_before_the_first_sync() -> None:
    lines = shown(reported.status(replace(reported.family(), last_sync=None, last_full_sync=None)))
    assert lines[-1] == "IPv4    last  never"


def test_a_first_sync_that_was_not_full_after_a_failure() -> None:
    lines = shown(reported.status(replace(reported.family(), last_full_sync=None)))
    assert lines[-1].startswith("IPv4    last  2 s ago")


def test_a_config_file() -> None:
    assert "config   /etc/proxy.yaml" in shown(
        replace(reported.status(), config_file="/etc/proxy.yaml")
    )


def test_no_daemon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--socket", f"{tmp_path}/none"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Error: no kube-proxy answers here:\n")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["-o", "yaml"], "--output yaml: must be text or json", id="bad-output"),
        pytest.param(
            ["now"], '"kube-proxy status" does not take any arguments, got ["now"]', id="no-flag"
        ),
    ],
)
def test_wrong_use(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", *arguments]) == 1
    assert ("", f"Error: {expected}\n") == capsys.readouterr()


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "-h"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("Usage:\n  kube-proxy status [flags]\n")
    assert "--socket" in out
    assert "Exit codes: 0 when the proxy is well" in out
