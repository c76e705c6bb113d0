"""The pages of a daemon: who may read them, what they show, and when their code is loaded."""

import ast
import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from fakes.dataplane import FakeDataplane
from kubeproxy.app.daemon import Daemon
from kubeproxy.app.wiring import Setup
from kubeproxy.base.inet import Family, Protocol
from kubeproxy.cluster.manifests.source import Manifests
from kubeproxy.config.flags import parse_flags
from kubeproxy.config.load import load
from kubeproxy.dataplane.contract import ConnectionCounts, Count
from kubeproxy.dataplane.modes import MODES
from kubeproxy.serve import routes
from kubeproxy.serve.http.answer import Answer
from kubeproxy.serve.http.request import Ends, Request
from kubeproxy.serve.routes import Listeners, router, serve_socket
from kubeproxy.table.entries import Frontend, FrontendKind, ServicePortName, Table
from waiting import until

CART = ServicePortName("shop", "cart", "http", Protocol.TCP)
ENDS = Ends(("127.0.0.1", 40000), ("127.0.0.1", 10249))
FRONTEND = Frontend(FrontendKind.CLUSTER_IP, "10.112.0.21", 80)


class Counting(FakeDataplane):
    """A dataplane that counts, and remembers what it wrote."""

    def connections(self) -> ConnectionCounts:
        return ConnectionCounts(1, [(CART, [Count(FRONTEND, b"c", 5)])])

    def written(self, table: Table, names: Sequence[ServicePortName]) -> str:
        return f"{table.family.value} {len(names)}"


def daemon(plane: type[FakeDataplane], directory: Path, *flags: str) -> Daemon:
    loaded = load(parse_flags(["--proxy-mode=nftables", *flags]), MODES)
    return Daemon(
        Setup(
            config=loaded.config,
            gates=loaded.gates,
            node_name="kestrel",
            source=Manifests((str(directory),), "kestrel"),
            families=(Family.IPV4,),
            dataplane=lambda _: plane(),
        )
    )


async def scraped(running: Daemon) -> set[str]:
    names = {"kubeproxy_service_connections_total", "kubeproxy_endpoint_connections_total"}
    text = "".join([piece async for piece in running.parts.registry.expose(names)])
    running.parts.registry.close()
    return {line.split("{")[0] for line in text.splitlines() if not line.startswith("#")}


@pytest.mark.parametrize(
    ("plane", "flags", "expected"),
    [
        pytest.param(Counting, (), {"kubeproxy_service_connections_total"}, id="it-counts"),
        pytest.param(FakeDataplane, (), set(), id="it-does-not-count"),
        pytest.param(Counting, ("--traffic-metrics=none",), set(), id="no-metrics-wanted"),
    ],
)
async def test_connections(
    plane: type[FakeDataplane], flags: tuple[str, ...], expected: set[str], tmp_path: Path
) -> None:
    running = daemon(plane, tmp_path, *flags)
    assert expected == await scraped(running)
    assert (running.parts.traffic is not None) == (plane is Counting)


async def test_endpoints_are_a_family_where_they_count(tmp_path: Path) -> None:
    running = daemon(Counting, tmp_path, "--nftables-endpoint-counters")
    names = {family.about.name for family in running.parts.registry.families()}
    assert "kubeproxy_endpoint_connections_total" in names


@pytest.mark.parametrize("path", ["/rules", "/rules/", "/rules/shop", "/rules/shop/cart"])
async def test_the_page_answers_for_all_below_it(path: str, tmp_path: Path) -> None:
    running = daemon(Counting, tmp_path)
    page = router(running.parts.routes, Listeners.METRICS)
    answer = page(Request("GET", path, peer="192.0.2.1"))
    assert isinstance(answer, Answer)
    assert answer.status == 403


@pytest.fixture
def _asked_by_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "socket_user", lambda *ends: {ENDS: 0}[ends])


@pytest.mark.parametrize(
    ("user", "status"),
    [
        pytest.param(0, 200, id="root"),
        pytest.param(os.geteuid(), 200, id="our-own-user"),
        pytest.param(os.geteuid() + 1, 403, id="another-user"),
        pytest.param(None, 403, id="the-user-is-not-known"),
    ],
)
@pytest.mark.parametrize("path", ["/rules", "/status/services"])
async def test_on_this_machine_it_is_for_root_and_our_own_user(
    path: str, user: int | None, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "socket_user", lambda *ends: {ENDS: user}[ends])
    page = router(daemon(Counting, tmp_path).parts.routes, Listeners.METRICS)
    found = page(Request("GET", path, peer="127.0.0.1", ends=ENDS))
    answer = found if isinstance(found, Answer) else await found
    assert status == answer.status


@pytest.mark.usefixtures("_asked_by_root")
async def test_before_the_first_sync_there_is_nothing(tmp_path: Path) -> None:
    running = daemon(Counting, tmp_path)
    page = router(running.parts.routes, Listeners.METRICS)
    found = page(Request("GET", "/rules", peer="127.0.0.1", ends=ENDS))
    assert not isinstance(found, Answer)
    answer = await found
    assert not isinstance(answer.body, bytes)
    assert [piece async for piece in answer.body] == [b"\n"]


@pytest.mark.usefixtures("_asked_by_root")
async def test_what_a_sync_programmed_is_shown(tmp_path: Path) -> None:
    running = daemon(Counting, tmp_path)
    (sync,) = running.parts.syncs.values()
    assert (sync.node, sync.failed) == (None, {})
    await sync.sync()
    page = router(running.parts.routes, Listeners.METRICS)
    found = page(Request("GET", "/rules", peer="127.0.0.1", ends=ENDS))
    assert not isinstance(found, Answer)
    answer = await found
    assert not isinstance(answer.body, bytes)
    text = b"".join([piece async for piece in answer.body])
    assert text == b"# IPv4: 0 service ports, mode nftables\n\n"


@pytest.mark.usefixtures("_asked_by_root")
@pytest.mark.parametrize("path", ["/status", "/status/", "/status/services/shop/cart"])
async def test_the_status_answers_for_all_below_it(path: str, tmp_path: Path) -> None:
    running = daemon(Counting, tmp_path, "--status-page=none")
    page = router(running.parts.routes, Listeners.METRICS)
    answer = page(Request("GET", path, peer="127.0.0.1", ends=ENDS))
    assert isinstance(answer, Answer)
    assert isinstance(answer.body, bytes)
    assert (answer.status, b"statusPage is none" in answer.body) == (404, True)


async def test_the_socket_answers_what_people_may_ask_and_nothing_else(tmp_path: Path) -> None:
    running = daemon(Counting, tmp_path, "--status-page=none", "--rules-page=none")
    path = tmp_path / "status.sock"
    task = asyncio.create_task(serve_socket(running.parts.routes, str(path)))
    try:
        await until(lambda: is_there(path))
        lines = [await ask(path, each) for each in ("/metrics", "/log", "/proxyMode")]
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert lines == [b"HTTP/1.0 200 OK", b"HTTP/1.0 200 OK", b"HTTP/1.0 404 Not Found"]


def is_there(path: Path) -> bool:
    return path.is_socket()


async def ask(socket: Path, path: str) -> bytes:
    """The first line of what is answered."""
    reader, writer = await asyncio.open_unix_connection(socket)
    try:
        writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        return (await reader.read()).split(b"\r\n")[0]
    finally:
        writer.close()


UNLOADED = ("kubeproxy.explain", "kubeproxy.serve.metrics.debug")
LOADED = """
import sys
from pathlib import Path
from app.test_pages import Counting, daemon
daemon(Counting, Path("/nowhere"))
print(sorted(name for name in sys.modules if name.startswith("kubeproxy.")))
"""


def test_what_only_people_who_look_need_is_not_loaded_before() -> None:
    """Every node pays for what is loaded."""
    ended = subprocess.run(
        [sys.executable, "-c", LOADED],
        env={"PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    loaded = set(ast.literal_eval(ended.stdout))
    status = {name for name in loaded if name.startswith("kubeproxy.serve.status.")}
    assert status == {f"kubeproxy.serve.status.{name}" for name in ("history", "live", "state")}
    assert not [name for name in loaded if name.startswith(UNLOADED)]
