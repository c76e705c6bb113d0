"""Which paths there are on which listener, and what upstream's pages answer."""

import asyncio
import gzip
import json
import re
import socket
from collections.abc import AsyncIterator, Mapping

import pytest
from msgspec.structs import replace

from kubeproxy.base import klog
from kubeproxy.base.commit import commit
from kubeproxy.base.errors import OperatorError
from kubeproxy.base.version import described
from kubeproxy.config.flags import parse_flags
from kubeproxy.config.gates import resolve
from kubeproxy.config.load import load
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.dataplane.modes import MODES
from kubeproxy.serve.http.answer import Answer
from kubeproxy.serve.http.listening import ListenError, listen
from kubeproxy.serve.http.request import Request
from kubeproxy.serve.metrics.families import Gauge
from kubeproxy.serve.metrics.registry import Registry
from kubeproxy.serve.routes import (
    HttpRoute,
    Listeners,
    RunFacts,
    router,
    routes,
    serve_health,
    serve_metrics,
)
from serve.status.living import Rig

STARTED = 1794821479.77
LOADED = load(parse_flags(["--proxy-mode=nftables", "--profiling"]), MODES)
FORMAT = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
FLAGS = {"bind-address": "0.0.0.0", "v": "2"}


def make(*, profiling: bool = False, **gates: bool) -> tuple[HttpRoute, ...]:
    registry = Registry()
    registry.add(Gauge("a", "x"), Gauge("b", "y"))
    config, rig = replace(LOADED.config, enable_profiling=profiling), Rig()
    facts = RunFacts(config, resolve(gates)[0], FLAGS, STARTED, "kestrel")
    return routes(facts, registry, rig.health, rig.live)


@pytest.fixture
def table() -> tuple[HttpRoute, ...]:
    return make()


async def ask(
    table: tuple[HttpRoute, ...],
    path: str,
    query: Mapping[str, str] | None = None,
    *,
    method: str = "GET",
    accept: str = "",
) -> tuple[Answer, bytes]:
    headers = {"accept-encoding": accept} if accept == "gzip" else {"accept": accept}
    request = Request(method, path, query or {}, headers)
    answer = router(table, Listeners.METRICS)(request)
    assert isinstance(answer, Answer)
    if isinstance(answer.body, bytes):
        return answer, answer.body
    return answer, b"".join([piece async for piece in answer.body])


async def test_metrics(table: tuple[HttpRoute, ...]) -> None:
    answer, body = await ask(table, "/metrics")
    assert answer.headers == (
        ("Content-Type", FORMAT),
        ("Process-Start-Time-Unix", "1794821479"),
    )
    assert b"a 0\n# HELP b y\n" in body
    _, body = await ask(table, "/metrics", {"name[]": "b"}, method="POST")
    assert body == b"# HELP b y\n# TYPE b gauge\nb 0\n"


async def test_metrics_are_packed_for_clients_that_can_unpack(
    table: tuple[HttpRoute, ...],
) -> None:
    answer, packed = await ask(table, "/metrics", accept="gzip")
    assert answer.headers[0] == ("Content-Encoding", "gzip")
    assert gzip.decompress(packed) == (await ask(table, "/metrics"))[1]


async def slis(table: tuple[HttpRoute, ...]) -> list[str]:
    _, body = await ask(table, "/metrics/slis")
    return [line for line in body.decode().splitlines() if line[0] != "#"]


async def test_slis_count_the_results_of_the_checks(table: tuple[HttpRoute, ...]) -> None:
    start = "process_start_time_seconds 1.79482147977e+09"
    assert await slis(table) == [start]
    for query in ({}, {"verbose": ""}, {"exclude": "ping"}):
        await ask(table, "/healthz", query)
    assert await slis(table) == [
        'kubernetes_healthcheck{name="ping",type="healthz"} 1',
        'kubernetes_healthchecks_total{name="ping",status="success",type="healthz"} 2',
        start,
    ]
    _, body = await ask(table, "/metrics/slis", method="DELETE")
    assert body == b"metrics reset\n"
    assert await slis(table) == [start]


@pytest.mark.parametrize(
    ("path", "query", "expected"),
    [
        pytest.param("/healthz", {}, "ok", id="healthz"),
        pytest.param("/healthz/ping", {"verbose": ""}, "ok", id="ping"),
        pytest.param(
            "/healthz", {"verbose": ""}, "[+]ping ok\nhealthz check passed\n", id="verbose"
        ),
        pytest.param(
            "/healthz",
            {"verbose": "", "exclude": "ping"},
            "[+]ping excluded: ok\nhealthz check passed\n",
            id="excluded",
        ),
        pytest.param(
            "/healthz",
            {"verbose": "", "exclude": "foo"},
            "[+]ping ok\n"
            'warn: some health checks cannot be excluded: no matches for "foo"\n'
            "healthz check passed\n",
            id="excluded-what-is-not-there",
        ),
        pytest.param("/proxyMode", {}, "nftables", id="mode"),
    ],
)
async def test_texts(
    table: tuple[HttpRoute, ...], path: str, query: dict[str, str], expected: str
) -> None:
    answer, body = await ask(table, path, query)
    assert (answer.status, body) == (200, expected.encode())
    assert ("Content-Type", "text/plain; charset=utf-8") in answer.headers


async def test_configz(table: tuple[HttpRoute, ...]) -> None:
    answer, body = await ask(table, "/configz")
    assert answer.headers == (
        ("Content-Type", "application/json"),
        ("X-Content-Type-Options", "nosniff"),
    )
    start = b'{"kubeproxy.config.k8s.io":{"kind":"KubeProxyConfiguration","apiVersion":'
    assert body.startswith(start)
    assert json.loads(body)["kubeproxy.config.k8s.io"]["mode"] == "nftables"


async def test_flagz(table: tuple[HttpRoute, ...]) -> None:
    _, body = await ask(table, "/flagz")
    first, title, warning, *flags = body.decode().splitlines()
    assert (first, title, flags) == ("", "kube-proxy flagz", ["bind-address=0.0.0.0", "v=2"])
    assert warning.startswith("Warning: ")
    wanted = "application/json;v=v1beta1;g=config.k8s.io;as=Flagz"
    _, body = await ask(table, "/flagz", accept=wanted)
    assert json.loads(body)["flags"] == FLAGS


async def test_statusz(table: tuple[HttpRoute, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubeproxy.serve.routes.time.time", lambda: STARTED + 3723.5)
    _, body = await ask(table, "/statusz")
    lines = body.decode().splitlines()
    assert "Up: 1 hr 02 min 03 sec" in lines
    paths = ["/configz", "/flagz", "/healthz", "/metrics", "/proxyMode", "/rules", "/status"]
    assert lines[-1] == f"Paths: {' '.join(paths)}"
    wanted = "application/json;v=v1beta1;g=config.k8s.io;as=Statusz"
    _, body = await ask(table, "/statusz", accept=wanted)
    status = json.loads(body)
    assert (status["startTime"], status["uptimeSeconds"]) == ("2026-11-16T09:31:19Z", 3723)
    assert status["paths"] == paths


@pytest.mark.parametrize(
    ("path", "gate"), [("/flagz", "ComponentFlagz"), ("/statusz", "ComponentStatusz")]
)
async def test_pages_behind_a_gate(path: str, gate: str) -> None:
    answer, _ = await ask(make(**{gate: False}), path)
    assert answer.status == 404


@pytest.mark.parametrize(
    "path", ["/none", "/livez", "/metrics/", "/debug/pprof/", "/debug/flags/v"]
)
async def test_what_is_not_there(table: tuple[HttpRoute, ...], path: str) -> None:
    answer, body = await ask(table, path)
    assert (answer.status, body) == (404, b"404 page not found\n")


async def test_the_index_lists_what_is_there_for_terminals() -> None:
    table = make(ComponentFlagz=False, ComponentStatusz=False)
    answer, body = await ask(table, "/")
    title, _, *lines = body.decode().splitlines()
    assert f"kube-proxy on kestrel: {described(commit())}" == title
    assert [line.split()[0] for line in lines] == [
        *("/status", "/rules", "/metrics", "/metrics/slis", "/healthz", "/proxyMode", "/configz"),
    ]
    assert answer.status == 200


async def test_the_index_has_links_for_browsers() -> None:
    table = make(profiling=True, ComponentFlagz=True, ComponentStatusz=True)
    answer, body = await ask(table, "/", accept="text/html,*/*")
    assert dict(answer.headers)["Content-Type"] == "text/html; charset=utf-8"
    links = re.findall(r'<a href="(/[^"]*)">\1</a>', body.decode())
    assert links[0] == "/status"
    assert {"/flagz", "/statusz", "/debug/pprof/"} <= set(links)
    for path in links:
        request = Request("GET", path, {}, {})
        assert any(each.matches(request) for each in table), path


async def test_profiling_is_behind_its_flag() -> None:
    answer, _ = await ask(make(profiling=True), "/debug/pprof/cmdline")
    assert answer.status == 200


@pytest.mark.parametrize("path", ["/", "/healthz/", "/livez/", "/readyz", "/metrics", "/status"])
def test_the_health_port_has_no_other_paths_and_does_not_count_them(path: str) -> None:
    rig = Rig()
    answer = rig.page(Listeners.HEALTH)(Request("GET", path))
    assert isinstance(answer, Answer)
    assert answer.status == 404
    assert rig.health.answered.total() == 0


@pytest.mark.parametrize("path", ["/healthz", "/livez"])
def test_the_health_port(path: str) -> None:
    rig = Rig()
    answer = rig.page(Listeners.HEALTH)(Request("GET", path))
    assert isinstance(answer, Answer)
    assert (answer.status, rig.health.answered[path, 200]) == (200, 1)


@pytest.mark.parametrize("path", ["/healthz", "/proxyMode", "/debug/pprof/cmdline"])
def test_the_socket_has_no_other_paths(path: str) -> None:
    answer = router(make(profiling=True), Listeners.SOCKET)(Request("GET", path))
    assert isinstance(answer, Answer)
    assert answer.status == 404


async def test_the_log_is_on_the_socket_alone(table: tuple[HttpRoute, ...]) -> None:
    klog.info("Said something")
    answer = router(table, Listeners.SOCKET)(Request("GET", "/log"))
    assert isinstance(answer, Answer)
    assert isinstance(answer.body, bytes)
    assert answer.body.endswith(b'] "Said something"\n')
    answer, _ = await ask(table, "/log")
    assert answer.status == 404


@pytest.fixture
async def taken() -> AsyncIterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


async def test_a_port_in_use_ends_the_process_only_if_asked_to(
    table: tuple[HttpRoute, ...], taken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--metrics-bind-address", taken]
    soft = load(parse_flags(flags), MODES).config
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await serve_metrics(table, soft)
    expected = (
        f'"starting metrics server failed" err="listen tcp {taken}: bind: address already in use"'
        ' logger="UnhandledError"'
    )
    assert expected in capsys.readouterr().err
    hard = load(parse_flags([*flags, "--bind-address-hard-fail"]), MODES).config
    with pytest.raises(ListenError, match="address already in use"):
        await serve_metrics(table, hard)


def on_health_port(where: str, *flags: str) -> KubeProxyConfiguration:
    return load(parse_flags([f"--healthz-bind-address={where}", *flags]), MODES).config


async def test_with_hard_fail_a_port_in_use_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    with listen("127.0.0.1", 0) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(OperatorError) as caught:
            await serve_health(make(), on_health_port(where, "--bind-address-hard-fail"))
    reason = f"failed to start proxy healthz on {where}: listen tcp {where}: bind: "
    assert f"healthz server failed: {reason}address already in use" == str(caught.value)
    assert f'"Healthz server failed" err="{reason}address already in use"' in (
        capsys.readouterr().err
    )


async def test_without_hard_fail_it_is_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    with listen("127.0.0.1", 0) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        task = asyncio.ensure_future(serve_health(make(), on_health_port(where)))
        await asyncio.sleep(0.01)
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert "Healthz server failed" in capsys.readouterr().err
