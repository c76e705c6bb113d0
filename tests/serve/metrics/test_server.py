import asyncio
import gzip
import json
import socket
from collections.abc import AsyncIterator, Mapping

import pytest

from kubeproxy.config.flags import parse_flags
from kubeproxy.config.gates import resolve
from kubeproxy.config.load import load
from kubeproxy.serve.http.answer import Answer, Page, text
from kubeproxy.serve.http.listening import ListenError
from kubeproxy.serve.http.request import Request
from kubeproxy.serve.metrics.families import Gauge
from kubeproxy.serve.metrics.registry import Registry
from kubeproxy.serve.metrics.server import Facts, find_page, serve_metrics, standard_pages

STARTED = 1794821479.77
LOADED = load(parse_flags(["--proxy-mode=nftables", "--profiling"]))
FORMAT = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
FLAGS = {"bind-address": "0.0.0.0", "v": "2"}


def make(**gates: bool) -> dict[str, Page]:
    registry = Registry()
    registry.add(Gauge("a", "x"), Gauge("b", "y"))
    return standard_pages(registry, Facts(LOADED.config, resolve(gates)[0], FLAGS, STARTED))


@pytest.fixture
def pages() -> dict[str, Page]:
    return make()


async def ask(
    pages: Mapping[str, Page],
    path: str,
    query: Mapping[str, str] | None = None,
    *,
    method: str = "GET",
    accept: str = "",
) -> tuple[Answer, bytes]:
    headers = {"accept-encoding": accept} if accept == "gzip" else {"accept": accept}
    request = Request(method, path, query or {}, headers)
    answer = find_page(pages, profiling=False)(request)
    assert isinstance(answer, Answer)
    if isinstance(answer.body, bytes):
        return answer, answer.body
    return answer, b"".join([piece async for piece in answer.body])


async def test_metrics(pages: dict[str, Page]) -> None:
    answer, body = await ask(pages, "/metrics")
    assert answer.headers == (
        ("Content-Type", FORMAT),
        ("Process-Start-Time-Unix", "1794821479"),
    )
    assert b"a 0\n# HELP b y\n" in body
    _, body = await ask(pages, "/metrics", {"name[]": "b"}, method="POST")
    assert body == b"# HELP b y\n# TYPE b gauge\nb 0\n"


async def test_metrics_are_packed_for_those_who_can_unpack(pages: dict[str, Page]) -> None:
    answer, packed = await ask(pages, "/metrics", accept="gzip")
    assert answer.headers[0] == ("Content-Encoding", "gzip")
    assert gzip.decompress(packed) == (await ask(pages, "/metrics"))[1]


async def slis(pages: dict[str, Page]) -> list[str]:
    _, body = await ask(pages, "/metrics/slis")
    return [line for line in body.decode().splitlines() if line[0] != "#"]


async def test_slis_count_what_the_checks_said(pages: dict[str, Page]) -> None:
    start = "process_start_time_seconds 1.79482147977e+09"
    assert await slis(pages) == [start]
    for query in ({}, {"verbose": ""}, {"exclude": "ping"}):
        await ask(pages, "/healthz", query)
    assert await slis(pages) == [
        'kubernetes_healthcheck{name="ping",type="healthz"} 1',
        'kubernetes_healthchecks_total{name="ping",status="success",type="healthz"} 2',
        start,
    ]
    _, body = await ask(pages, "/metrics/slis", method="DELETE")
    assert body == b"metrics reset\n"
    assert await slis(pages) == [start]


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
    pages: dict[str, Page], path: str, query: dict[str, str], expected: str
) -> None:
    answer, body = await ask(pages, path, query)
    assert (answer.status, body) == (200, expected.encode())
    assert ("Content-Type", "text/plain; charset=utf-8") in answer.headers


async def test_configz(pages: dict[str, Page]) -> None:
    answer, body = await ask(pages, "/configz")
    assert answer.headers == (
        ("Content-Type", "application/json"),
        ("X-Content-Type-Options", "nosniff"),
    )
    start = b'{"kubeproxy.config.k8s.io":{"kind":"KubeProxyConfiguration","apiVersion":'
    assert body.startswith(start)
    assert json.loads(body)["kubeproxy.config.k8s.io"]["mode"] == "nftables"


async def test_flagz(pages: dict[str, Page]) -> None:
    _, body = await ask(pages, "/flagz")
    first, title, warning, *flags = body.decode().splitlines()
    assert (first, title, flags) == ("", "kube-proxy flagz", ["bind-address=0.0.0.0", "v=2"])
    assert warning.startswith("Warning: ")
    wanted = "application/json;v=v1beta1;g=config.k8s.io;as=Flagz"
    _, body = await ask(pages, "/flagz", accept=wanted)
    assert json.loads(body)["flags"] == FLAGS


async def test_statusz(pages: dict[str, Page], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubeproxy.serve.metrics.server.time.time", lambda: STARTED + 3723.5)
    pages["/rules"] = lambda _: text("")
    _, body = await ask(pages, "/statusz")
    lines = body.decode().splitlines()
    assert "Up: 1 hr 02 min 03 sec" in lines
    paths = ["/configz", "/flagz", "/healthz", "/metrics", "/proxyMode", "/rules"]
    assert lines[-1] == f"Paths: {' '.join(paths)}"
    wanted = "application/json;v=v1beta1;g=config.k8s.io;as=Statusz"
    _, body = await ask(pages, "/statusz", accept=wanted)
    status = json.loads(body)
    assert (status["startTime"], status["uptimeSeconds"]) == ("2026-11-16T09:31:19Z", 3723)
    assert status["paths"] == paths


@pytest.mark.parametrize(
    ("path", "gate"), [("/flagz", "ComponentFlagz"), ("/statusz", "ComponentStatusz")]
)
async def test_pages_behind_a_gate(path: str, gate: str) -> None:
    answer, _ = await ask(make(**{gate: False}), path)
    assert answer.status == 404


@pytest.mark.parametrize("path", ["/", "/livez", "/metrics/", "/debug/pprof/", "/debug/flags/v"])
async def test_what_is_not_there(pages: dict[str, Page], path: str) -> None:
    answer, body = await ask(pages, path)
    assert (answer.status, body) == (404, b"404 page not found\n")


def test_profiling_is_behind_its_flag(pages: dict[str, Page]) -> None:
    answer = find_page(pages, profiling=True)(Request("GET", "/debug/pprof/cmdline"))
    assert isinstance(answer, Answer)
    assert answer.status == 200


@pytest.fixture
async def taken() -> AsyncIterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


async def test_a_port_in_use_ends_the_process_only_if_asked_to(
    pages: dict[str, Page], taken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--metrics-bind-address", taken]
    soft = load(parse_flags(flags)).config
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await serve_metrics(pages, soft)
    expected = (
        f'"starting metrics server failed" err="listen tcp {taken}: bind: address already in use"'
        ' logger="UnhandledError"'
    )
    assert expected in capsys.readouterr().err
    hard = load(parse_flags([*flags, "--bind-address-hard-fail"])).config
    with pytest.raises(ListenError, match="address already in use"):
        await serve_metrics(pages, hard)
