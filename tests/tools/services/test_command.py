"""`kube-proxy services` as people call it."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml
from msgspec.structs import replace

from fakes.daemon import FakeDaemon, always, in_turn, serving
from kubeproxy.app.cli import main
from kubeproxy.serve.status.wire import EndpointDetail, PortDetail, ServiceDetail, ServiceList
from kubeproxy.serve.status.words import UNKNOWN
from kubeproxy.tools import client
from kubeproxy.tools.layout import Display, Line, painted
from kubeproxy.tools.services.view import detail, listing
from tools import reported

LIST = "/status/services"
ALL = reported.services(reported.CART, reported.DNS, reported.REPORTS)


class Called:
    """Calls the command, and keeps what came of it."""

    def __init__(self, daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
        self._daemon = daemon
        self._capsys = capsys
        self.code = 0
        self.err = ""

    def __call__(self, *arguments: str) -> str:
        self.code = main(["services", "--socket", self._daemon.socket, *arguments])
        out, self.err = self._capsys.readouterr()
        return out


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[FakeDaemon]:
    pages = {LIST: always(ALL), f"{LIST}/shop/cart": always(reported.detail())}
    with serving(FakeDaemon(pages), tmp_path / "socket") as daemon:
        yield daemon


@pytest.fixture
def call(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> Called:
    return Called(daemon, capsys)


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the command would have waited."""
    waits: list[float] = []
    monkeypatch.setattr("kubeproxy.tools.services.command.time.sleep", waits.append)
    return waits


# --- all --------------------------------------------------------------------------------------

LISTED = """\
NAMESPACE/NAME   ADDRESSES                        PORTS                      ENDPOINTS  \
CONNECTIONS  PER SECOND
shop/cart        10.112.0.21,203.0.113.7,*:31080  http:80/TCP                      1/4        \
1,200        12.5
kube-system/dns  10.112.0.10,fd12::a              dns:53/UDP,dns-tcp:53/TCP        8/8           \
77         0.5
shop/reports     10.112.0.23                      80/TCP                           0/0            \
0           0
  no endpoint can serve
"""


def test_all_of_them(call: Called) -> None:
    assert (call(), call.code, call.err) == (LISTED, 0, "")


def test_rates_need_two_looks_and_a_moment_between(
    call: Called, daemon: FakeDaemon, slept: list[float]
) -> None:
    unknown = replace(reported.CART, per_second=None)
    daemon.pages[LIST] = in_turn(reported.services(unknown), reported.services(reported.CART))
    assert call().splitlines()[1].endswith("12.5")
    assert (slept, len(daemon.asked)) == ([client.MOMENT], 2)


def test_without_rates_there_is_no_wait(
    call: Called, daemon: FakeDaemon, slept: list[float]
) -> None:
    daemon.pages[LIST] = always(reported.services(replace(reported.CART, per_second=None)))
    assert call("--no-rates").splitlines()[1].endswith(f"1,200           {UNKNOWN}")
    assert (slept, len(daemon.asked)) == ([], 1)


def test_a_mode_that_counts_nothing(call: Called, daemon: FakeDaemon, slept: list[float]) -> None:
    daemon.pages[LIST] = always(reported.not_counted(reported.services(reported.CART)))
    assert call().splitlines() == [
        "NAMESPACE/NAME  ADDRESSES                        PORTS        ENDPOINTS",
        "shop/cart       10.112.0.21,203.0.113.7,*:31080  http:80/TCP        1/4",
    ]
    assert (call.err, slept) == ("note: connections are not counted in iptables mode\n", [])


def test_what_is_asked_for(call: Called, daemon: FakeDaemon) -> None:
    call("--search=10.112", "--sort=rate", "--limit=7", "--no-rates")
    assert daemon.queries(LIST) == [{"q": ["10.112"], "sort": ["rate"], "limit": ["7"]}]


def test_pages_and_problems_are_asked_for(call: Called, daemon: FakeDaemon) -> None:
    call("--problems", "--offset=400", "--limit=200", "--no-rates")
    (query,) = daemon.queries(LIST)
    wanted = {"problems": ["true"], "offset": ["400"], "limit": ["200"], "sort": ["name"]}
    assert wanted == query


def test_names_alone(call: Called, slept: list[float]) -> None:
    assert call("-o", "name") == "shop/cart\nkube-system/dns\nshop/reports\n"
    assert call("-o", "name", "shop/cart", "--no-rates") == "shop/cart\n"
    assert (call.err, slept) == ("", [])


def test_yaml(call: Called) -> None:
    listed = yaml.safe_load(call("-o", "yaml", "--no-rates"))
    assert [each["service"] for each in listed["services"]] == ["cart", "dns", "reports"]
    assert msgspec.convert(listed, ServiceList) == ALL


def test_several_by_name(call: Called, daemon: FakeDaemon) -> None:
    other = replace(reported.detail(), service="till")
    daemon.pages[f"{LIST}/shop/till"] = always(other)
    lines = call("shop/cart", "shop/till").splitlines()
    heads = [each for each in lines if each.startswith("shop/")]
    assert [each.split()[0] for each in heads] == ["shop/cart", "shop/till"]
    listed = msgspec.json.decode(
        call("shop/cart", "shop/till", "-o=json"), type=list[ServiceDetail]
    )
    assert listed == [reported.detail(), other]


def test_a_limit_is_said(call: Called, daemon: FakeDaemon) -> None:
    daemon.pages[LIST] = always(replace(reported.services(reported.CART), matching=3))
    call("--limit=1")
    assert call.err == "note: 1 of 3 services shown, as --limit and --offset say\n"


def test_nothing_fits(call: Called, daemon: FakeDaemon) -> None:
    daemon.pages[LIST] = always(reported.services())
    assert call("--search=nothing").split()[0] == "NAMESPACE/NAME"
    assert (call.code, call.err) == (0, "note: none of 3 services fits\n")


def test_a_cluster_without_services(call: Called, daemon: FakeDaemon) -> None:
    daemon.pages[LIST] = always(replace(reported.services(), total=0))
    assert call("--no-rates").split()[0] == "NAMESPACE/NAME"
    assert call.code == 0
    assert call.err.startswith("note: no Service is proxied: kube-proxy status says whether")


@pytest.mark.parametrize(
    ("flags", "expected", "remark"),
    [
        pytest.param(["-n", "shop"], ["cart", "reports"], "", id="all-of-it"),
        pytest.param(
            ["--namespace=shop", "--limit=1"],
            ["cart"],
            "note: 1 of 2 services shown, as --limit and --offset say\n",
            id="the-limit-counts-those-inside",
        ),
        pytest.param(
            ["--namespace=shop", "--offset=1"],
            ["reports"],
            "note: 1 of 2 services shown, as --limit and --offset say\n",
            id="so-does-the-offset",
        ),
        pytest.param(
            ["-n", "sho"], [], "note: none of 3 services fits\n", id="a-part-of-a-name-is-none"
        ),
    ],
)
def test_a_namespace(
    call: Called, daemon: FakeDaemon, flags: list[str], expected: list[str], remark: str
) -> None:
    rows = call(*flags, "--no-rates").splitlines()[1:]
    assert expected == [row.split()[0] for row in rows if not row.startswith(" ")]
    assert remark == call.err
    assert daemon.queries(LIST)[0]["limit"] == ["0"]


def test_a_search_inside_a_namespace(call: Called, daemon: FakeDaemon) -> None:
    call("-n", "shop", "--search=cart", "--no-rates")
    assert daemon.queries(LIST)[0]["q"] == ["cart"]


def shown(lines: Iterator[Line] | list[Line], width: int | None) -> list[str]:
    return [painted(each, Display(width)).rstrip() for each in lines]


def test_a_narrow_terminal_keeps_names_and_figures() -> None:
    assert shown(listing(ALL, 80), 80) == [
        "NAMESPACE/NAME   ADDRESSES     PORTS          ENDPOINTS  CONNECTIONS  PER SECOND",
        "shop/cart        10.112.0.21…  http:80/TCP          1/4        1,200        12.5",
        "kube-system/dns  10.112.0.10…  dns:53/UDP,d…        8/8           77         0.5",
        "shop/reports     10.112.0.23   80/TCP               0/0            0           0",
        "  no endpoint can serve",
    ]


def test_hostile_names(call: Called, daemon: FakeDaemon) -> None:
    daemon.pages[LIST] = always(reported.services(replace(reported.CART, service="\x1b[2J\x9b")))
    assert "shop/\ufffd[2J\ufffd" in call("--no-rates")


# --- one --------------------------------------------------------------------------------------

DETAIL = """\
shop/cart   on node kestrel, nftables mode

http TCP, IPv4, internalTrafficPolicy Cluster, externalTrafficPolicy Local, balance random
  FRONTEND    ADDRESS         CONNECTIONS  PER SECOND
  cluster-ip  10.112.0.21:80        1,100        12.0
  node-port   *:31080                 100         0.5
  ENDPOINT         NODE       STATE                 USED FOR
  10.64.3.11:8080  this node  ready                 Cluster Local
  10.65.7.21:8080  heron      ready                 Cluster
    not for Local: it is on node heron, and the traffic policy is Local
  10.64.3.12:8080  this node  not ready             nothing
    not used: it is not ready
  10.66.9.31:8080  not named  terminating, serving  nothing
    not for Cluster: it is terminating, and others are ready
    not for Local: its slice does not say on which node it is
"""


def test_one_of_them(call: Called, slept: list[float]) -> None:
    assert (call("shop/cart"), call.code, call.err) == (DETAIL, 0, "")
    assert slept == [client.MOMENT]


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        pytest.param(["shop/cart"], "shop/cart", id="with-its-namespace"),
        pytest.param(["cart", "-n", "shop"], "shop/cart", id="the-namespace-as-a-flag"),
        pytest.param(["shop/cart", "-n", "x"], "shop/cart", id="the-name-says-more-than-the-flag"),
        pytest.param(["cart"], "cart", id="the-daemon-finds-the-namespace"),
        pytest.param(["shop/cart:http"], "shop/cart", id="a-service-port-is-of-its-service"),
    ],
)
def test_names(call: Called, daemon: FakeDaemon, arguments: list[str], path: str) -> None:
    daemon.pages[f"{LIST}/cart"] = always(reported.detail())
    call(*arguments, "--no-rates")
    assert (0, [f"{LIST}/{path}"]) == (call.code, [asked for asked, _ in daemon.asked])


@pytest.mark.parametrize(
    "said",
    [
        "no Service named crt is proxied: kube-proxy services --search TEXT finds those that are",
        "no service ports for shop/crt\nkube-proxy services lists all",
    ],
)
def test_an_unknown_name(call: Called, daemon: FakeDaemon, said: str) -> None:
    daemon.pages[f"{LIST}/shop/crt"] = always((404, f"{said}\n"))
    assert (call("shop/crt"), call.code) == ("", 1)
    assert call.err == f"Error: {said}\n"


def one(port: PortDetail, width: int | None = None) -> list[str]:
    return shown(detail(reported.detail(port), width), width)[2:]


def test_every_setting() -> None:
    port = replace(
        reported.port(),
        name="",
        affinity_seconds=10800,
        source_ranges=("192.0.2.0/25",),
        health_check_port=32100,
    )
    assert one(port)[0] == (
        "TCP, IPv4, internalTrafficPolicy Cluster, externalTrafficPolicy Local, balance random,"
        " session affinity 3 h, only from 192.0.2.0/25, health check port 32100"
    )
    assert "no source allowed" in one(replace(port, source_ranges=(), balance=""))[0]
    inside = replace(reported.port(), external_traffic_policy="")
    assert one(inside)[0] == "http TCP, IPv4, internalTrafficPolicy Cluster, balance random"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(
            {"healing": "retryRefused,eject", "healing_by": "annotation"},
            ", healing retryRefused eject (by annotation)",
            id="in-force",
        ),
        pytest.param(
            {"not_healed": "not in iptables mode"}, ", healing: not in iptables mode", id="not"
        ),
    ],
)
def test_what_is_done_about_endpoints_that_fail(settings: dict[str, str], expected: str) -> None:
    assert one(replace(reported.port(), **settings))[0].endswith(expected)


def test_an_endpoint_that_fails() -> None:
    why = "left out until 12:00:05 UTC: 16 connections of 3 clients were refused"
    endpoint = replace(
        reported.port().endpoints[0],
        used=False,
        not_for_cluster=why,
        not_for_local=why,
        failures={"refused": 1200, "unanswered": 7},
    )
    assert one(replace(reported.port(), endpoints=(endpoint,)))[-4:] == [
        "  10.64.3.11:8080  this node  ready  nothing",
        f"    not used: {why}",
        "    connections that failed: 1,200 refused, 7 not answered",
        "  no endpoint is used: connections fail",
    ]


def test_what_is_wrong_with_a_port() -> None:
    port = replace(reported.port(), not_programmed="no SCTP", conflicts=(reported.TWICE,))
    assert one(port)[1:3] == [
        "  NOT PROGRAMMED: no SCTP",
        "  203.0.113.7:80/TCP is served by shop/cart:http, not by shop/till:http",
    ]


def test_no_endpoints() -> None:
    port = replace(reported.port(), endpoints=())
    assert one(port)[-1] == "  no endpoints: connections fail"


def test_no_endpoint_that_is_used() -> None:
    unready = reported.port().endpoints[2]
    port = replace(reported.port(), endpoints=(unready,))
    assert one(port)[-2:] == [
        "    not used: it is not ready",
        "  no endpoint is used: connections fail",
    ]


def test_one_policy_alone_is_not_named() -> None:
    only = replace(reported.port().endpoints[1], used=False, not_for_cluster=None)
    lines = one(replace(reported.port(), endpoints=(reported.port().endpoints[0], only)))
    assert lines[-1] == "    not used: it is on node heron, and the traffic policy is Local"


def test_endpoints_that_are_counted() -> None:
    def counted(each: EndpointDetail) -> EndpointDetail:
        return replace(each, connections=1234, per_second=0.25)

    endpoints = tuple(map(counted, reported.port().endpoints[:1]))
    lines = one(replace(reported.port(), endpoints=endpoints))
    assert lines[-2:] == [
        "  ENDPOINT         NODE       STATE  USED FOR       CONNECTIONS  PER SECOND",
        "  10.64.3.11:8080  this node  ready  Cluster Local        1,234         0.2",
    ]


def test_one_in_a_mode_that_counts_nothing(call: Called, daemon: FakeDaemon) -> None:
    silent = replace(reported.detail(), mode="iptables", counts_connections=False)
    daemon.pages[f"{LIST}/shop/cart"] = always(silent)
    assert call("shop/cart").splitlines()[3:5] == [
        "  FRONTEND    ADDRESS",
        "  cluster-ip  10.112.0.21:80",
    ]
    assert call.err == "note: connections are not counted in iptables mode\n"


def test_reasons_are_wrapped_and_not_cut() -> None:
    lines = one(reported.port(), 70)
    assert "      Local" in lines
    assert not any("…" in line for line in lines)


# --- both -------------------------------------------------------------------------------------


def test_for_programs(call: Called) -> None:
    assert msgspec.json.decode(call("-o", "json"), type=ServiceList) == ALL
    one = msgspec.json.decode(call("shop/cart", "-o=json"), type=ServiceDetail)
    assert (reported.detail(), "") == (one, call.err)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(
            ["a", "-w"],
            "--watch prints changes of the list, as text: no name, no -o json",
            id="watching-a-service",
        ),
        pytest.param(["--offset=-1"], "--offset -1: must not be negative", id="negative-offset"),
        pytest.param(
            ["--sort=size"],
            "--sort size: must be one of name, connections, rate",
            id="unknown-order",
        ),
        pytest.param(["--limit=-1"], "--limit -1: must not be negative", id="negative-limit"),
        pytest.param(
            ["-o=xml"],
            "--output xml: must be text, wide, name, json or yaml",
            id="bad-output",
        ),
    ],
)
def test_wrong_use(call: Called, arguments: list[str], expected: str) -> None:
    assert ("", 1, f"Error: {expected}\n") == (call(*arguments), call.code, call.err)


def test_help(call: Called) -> None:
    out = call("-h")
    assert out.startswith("Usage:\n  kube-proxy services [[NAMESPACE/]NAME...] [flags]\n")
    assert "  -n, --namespace string" in out.splitlines()


def test_no_daemon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["services", "--socket", f"{tmp_path}/none"]) == 3
    assert "no kube-proxy answers here" in capsys.readouterr().err
