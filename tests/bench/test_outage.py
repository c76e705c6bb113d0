import asyncio
import errno
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from bench.figures import Run
from bench.machine import Code, Machine
from bench.outage import figures
from bench.outage.__main__ import variants
from bench.outage.clients import Client
from bench.outage.figures import Effort, Failure, Results, Seen, failure, size
from bench.outage.page import drawn, page, rows, section
from bench.outage.pods import Pods
from bench.outage.stage import ON_ANOTHER, ON_ONE_NODE, service
from bench.proxies import Proxy, configuration

HOST = "127.0.0.1"
SEEN = Seen(
    connects=100,
    failed={Failure.REFUSED: 3},
    slow=[1.1, 3.2],
    kept=4,
    broken=1,
    gaps=[1.5, 4.0],
    unanswered=1,
    late=0.01,
)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConnectionRefusedError(), Failure.REFUSED),
        (ConnectionResetError(), Failure.RESET),
        (BrokenPipeError(), Failure.RESET),
        (TimeoutError(), Failure.TIMED_OUT),
        (OSError(errno.EHOSTUNREACH, "no route"), Failure.UNREACHABLE),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_has_a_kind(error: OSError, kind: Failure) -> None:
    assert kind is failure(error)


def test_stalls_count_from_the_second_second_on() -> None:
    found = figures.figures(SEEN)
    assert found["stalled"] == pytest.approx(0.5 + 3.0)
    assert found["longest"] == 4.0
    assert (found["refused"], found["timed_out"], found["unanswered"]) == (3, 0, 1)


def test_there_are_no_stalls_without_gaps() -> None:
    found = figures.figures(msgspec.structs.replace(SEEN, gaps=[]))
    assert (found["stalled"], found["longest"]) == (0, 0)


def _run(proxy: str, client: str, seen: Seen) -> Run:
    return Run(proxy, size("a pod is lost", client), 1, 0.5, figures.figures(seen))


def test_the_table_has_a_column_for_each_variant_and_no_row_without_events() -> None:
    calm = msgspec.structs.replace(SEEN, failed={}, slow=[], broken=0, gaps=[], unanswered=0)
    runs = [
        _run("ours", "from a pod", SEEN),
        _run("healing", "from a pod", calm),
        _run("ours", "from outside", calm),
    ]
    assert rows(runs) == [
        ("", "ours", "healing"),
        ("a pod is lost: from a pod", "", ""),
        ("  new connections", "100", "100"),
        ("    refused", "3", "0"),
        ("    answered after more than 0.9 s", "2", "0"),
        ("    of these and the failed, answered within 1.5 s", "20.0 %", "-"),
        ("    longest time to an answer", "3.2 s", "0.0 s"),
        ("  long-lived connections", "4", "4"),
        ("    broken, and made again", "1", "0"),
        ("    stalls of more than 1 s", "2", "0"),
        ("    stalled, together", "3.5 s", "0.0 s"),
        ("    longest time without an answer", "4.0 s", "0.0 s"),
        ("    without an answer at the end", "1", "0"),
        ("a pod is lost: from outside", "", ""),
        ("  new connections", "100", "-"),
        ("  long-lived connections", "4", "-"),
    ]


def test_a_connection_that_failed_was_not_helped_by_a_retransmission() -> None:
    found = figures.with_share(figures.figures(SEEN))
    assert (found["slow"], found["soon"], found["slowest"]) == (2, 1, 3.2)
    assert found["share"] == pytest.approx(100 * 1 / 5)


def test_all_clients_together_have_sums_and_the_longest_of_all() -> None:
    other = msgspec.structs.replace(SEEN, failed={Failure.TIMED_OUT: 5}, slow=[7.0], gaps=[])
    (found,) = figures.together([_run("ours", "from a pod", SEEN), _run("ours", "x", other)])
    assert (found.size, found.number) == ("a pod is lost", 1)
    assert (found.figures["connects"], figures.failed(found.figures)) == (200, 8)
    assert (found.figures["slow"], found.figures["slowest"]) == (3, 7.0)
    assert (found.figures["stalled"], found.figures["longest"]) == (3.5, 4.0)


def test_the_picture_and_the_section_have_all_variants(results: Results) -> None:
    shown = "\n".join(section(results))
    assert "a pod is lost: peer, run 1: no figures, the proxy ended.\n" in shown
    assert "| &nbsp;&nbsp;new connections | 100 | - |" in shown
    assert drawn(results).count("a pod is lost") == 3


@pytest.fixture
def results() -> Results:
    return Results(
        date="2026-01-01",
        command="make bench-outage",
        machine=Machine("cpu", 2, 8.0, "6.1", "3.11", privileged=True, load=0.1),
        code=Code("abc", "print", is_modified=False),
        proxies={"ours": "v1", "peer": "v2"},
        effort=Effort(),
        outages=[
            _run("ours", "from a pod", SEEN),
            Run("peer", "a pod is lost", 1, problem="the proxy ended"),
        ],
    )


def test_the_page_has_the_table_and_names_runs_without_figures(results: Results) -> None:
    shown = page(results)
    assert "with `make bench-outage`, commit `abc`. ours is v1; peer is v2." in shown
    assert "| &nbsp;&nbsp;&nbsp;&nbsp;refused | 3 | - |" in shown
    assert "a pod is lost: peer, run 1: no figures, the proxy ended.\n" in shown


def test_results_are_known_and_read_as_they_were_written(results: Results, tmp_path: Path) -> None:
    file = tmp_path / "results" / "outage.json"
    figures.write(results, file)
    assert figures.is_in(file)
    assert results == figures.read(file)
    file.write_text('{"runs": []}')
    assert not figures.is_in(file)


def test_a_variant_is_a_proxy_with_settings_of_its_own(tmp_path: Path) -> None:
    ours = ["kubeproxy", "kubeproxy healing"]
    healing: dict[str, object] = {"healing": {"parts": "all"}}
    own = Proxy("healing", "kube-proxy", settings={"clusterCIDR": "fd00::/8"}, section=healing)
    found = configuration(tmp_path, own)
    others = configuration(tmp_path, Proxy("ours", "kube-proxy"))
    assert found == others | own.settings | {"nftables": {"minSyncPeriod": "1ns"} | healing}
    assert [each.name for each in variants("a", "")] == ours
    assert [each.name for each in variants("a", "b")] == [*ours, "peer"]


def test_the_endpoints_of_a_node_are_on_one_node() -> None:
    assert {serial % 100 for serial in ON_ONE_NODE} != {serial % 100 for serial in ON_ANOTHER}
    assert [len({serial % 100 for serial in each}) for each in (ON_ONE_NODE, ON_ANOTHER)] == [1, 1]


def test_the_service_has_a_node_port() -> None:
    spec = service()["spec"]
    assert isinstance(spec, dict)
    assert (spec["type"], spec["ports"][0]["nodePort"]) == ("NodePort", 30080)


LOAD = Effort(rate=50, kept=2, timeout=0.2)


@pytest.fixture
def port() -> int:
    with socket.create_server((HOST, 0)) as free:
        number: int = free.getsockname()[1]
        return number


@pytest.fixture
async def pods(port: int) -> AsyncIterator[Pods]:
    found = Pods(port)
    await found.open(HOST)
    yield found
    await found.end()


class Loading:
    """A client's load, and what it has met in the end."""

    def __init__(self, port: int) -> None:
        self._ended = asyncio.Event()
        self.client = Client((HOST, port), LOAD)
        self._task = asyncio.create_task(self.client.run(self._ended))

    async def until(self, connects: int) -> None:
        async with asyncio.timeout(10):
            while self.client.connects < connects:
                await asyncio.sleep(0.01)

    async def seen(self) -> Seen:
        self._ended.set()
        return await self._task


@pytest.mark.usefixtures("pods")
async def test_a_client_meets_nothing_where_all_is_well(port: int) -> None:
    load = Loading(port)
    await load.until(10)
    seen = await load.seen()
    assert seen.connects >= 10
    assert (seen.failed, seen.slow, seen.broken, seen.gaps, seen.kept) == ({}, [], 0, [], 2)


async def test_a_pod_that_ends_refuses_and_breaks_what_it_had(pods: Pods, port: int) -> None:
    load = Loading(port)
    await load.until(5)
    await pods.close(HOST)
    await load.until(20)
    await pods.open(HOST)
    await load.until(30)
    seen = await load.seen()
    assert seen.failed[Failure.REFUSED] >= 10
    assert seen.broken == 2
    assert seen.unanswered == 0


async def test_connections_without_an_answer_time_out(
    pods: Pods, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["bench.outage.clients"], "STALL", 0.2)
    load = Loading(port)
    await load.until(5)
    await pods.close(HOST)
    with socket.create_server((HOST, port), backlog=100):  # it accepts nothing
        before = load.client.connects
        await load.until(before + 20)
        seen = await load.seen()
    assert seen.failed[Failure.TIMED_OUT] >= 10
    assert seen.unanswered == 2
    assert len(seen.gaps) == 2
