"""What a running daemon says of itself, on its metrics address and on its socket."""

import http.client
import json
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlencode

import msgspec
import pytest

from kubeproxy.base.inet import Family
from kubeproxy.serve.status import wire
from kubeproxy.serve.status.tablewire import Desired, read_table
from lab.deploy import ETP_LOCAL, Address, Port, deploy, everywhere
from lab.documents import complete
from lab.modes import only
from lab.page import ask
from lab.plan import HOSTS, cluster_ip, vip
from lab.stage import CLUSTER_CIDR_FLAG, Lab
from world import NODE_NAME, Document

pytestmark = only("nftables", reason="the tools and pages are the same in every mode")

PATIENCE = 60.0
KUBE_PROXY = (sys.executable, "-m", "kubeproxy")

T = TypeVar("T")


def get(lab: Lab, path: str, type_: type[T], **query: str) -> T:
    """What the daemon says at a path of its metrics address."""
    target = quote(path) + (f"?{urlencode(query)}" if query else "")
    status, text = ask(lab.network.node, target, headers={"Accept": "application/json"})
    assert status == 200, text
    return msgspec.json.decode(text, type=type_)


def over_socket(path: Path, target: str) -> tuple[int, bytes]:
    """Status and body that the socket gives."""
    connection = http.client.HTTPConnection("localhost", timeout=PATIENCE)
    connection.sock = socket.socket(socket.AF_UNIX)
    try:
        connection.sock.connect(str(path))
        connection.request("GET", target, headers={"Accept": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def eventually(look: Callable[[], T], right: Callable[[T], bool]) -> T:
    """What is read when it is right; readings serve all who ask within a second."""
    deadline = time.monotonic() + PATIENCE
    while not right(found := look()):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


def begin(lab: Lab, *documents: Document, flags: tuple[str, ...] = ()) -> None:
    lab.run(*flags)
    lab.put()
    lab.put(*documents)


def test_the_daemon_and_its_syncs(lab: Lab) -> None:
    begin(lab, *deploy("novel", everywhere(21), "L1 R1", [Port(node_port=31080)]))
    before = get(lab, "/status", wire.DaemonStatus)
    assert (before.node, before.mode, before.healthy) == (NODE_NAME, "nftables", True)
    assert before.source.startswith("manifests in ")
    four, six = before.families
    for each in (four, six):
        # The other service port is the lab's pulse.
        assert (each.services, each.service_ports, each.endpoints) == (2, 2, 2)
        assert (each.failures, each.not_programmed, each.conflicts) == (0, (), ())
        assert each.last_sync == each.history[-1]
        assert (each.history[-1].outcome, each.history[-1].added) == ("ok", 1)
        assert each.history[-1].written > 0
    lab.put(*deploy("novel", everywhere(21), "R1", [Port(node_port=31080)]))
    after = get(lab, "/status", wire.DaemonStatus)
    assert after.families[0].syncs > four.syncs
    assert after.families[0].history[-1].changed == 2
    assert after.families[0].endpoints == 1


def test_services_are_listed_and_found(lab: Lab) -> None:
    begin(
        lab,
        *deploy("novel", everywhere(21), "L1 R1:unready", [Port(node_port=31080)]),
        *deploy("poem", Address(22), ""),
    )
    found = get(lab, "/status/services", wire.ServiceList)
    assert [each.service for each in found.services] == ["pulse", "novel", "poem"]
    novel, poem = found.services[1:]
    assert novel.addresses[:2] == (cluster_ip(21), cluster_ip(21, Family.IPV6))
    assert (novel.ports, novel.node_ports) == (("tcp-80:80/TCP",), (31080,))
    assert (novel.endpoints, novel.endpoints_used) == (4, 2)  # both families
    assert (novel.problems, poem.problems) == ((), ("no endpoint can serve",))
    for text in (HOSTS["L1"].ipv4, HOSTS["R1"].ipv4, f"{vip(21)}:80", "31080", "MALL/NOV"):
        found = get(lab, "/status/services", wire.ServiceList, q=text)
        assert [each.service for each in found.services] == ["novel"], text


def test_endpoints_say_why_they_are_not_used(lab: Lab) -> None:
    begin(lab, *deploy("novel", everywhere(21), "L1 L2:unready R1", spec=ETP_LOCAL))
    detail = get(lab, "/status/services/mall/novel", wire.ServiceDetail)
    four, six = detail.ports
    assert (four.ip_family, six.ip_family) == ("IPv4", "IPv6")
    for port in (four, six):
        reasons = {(e.used, e.not_for_cluster, e.not_for_local) for e in port.endpoints}
        assert reasons == {
            (True, "", ""),
            (False, "it is not ready", "it is not ready"),
            (True, "", "it is on node heron, and the traffic policy is Local"),
        }
        assert (port.internal_traffic_policy, port.external_traffic_policy) == ("Cluster", "Local")
    status, text = ask(lab.network.node, "/status/services/mall/novl")
    assert (status, "namespace mall has: novel" in text) == (404, True)


def test_connections_are_counted_and_become_rates(lab: Lab) -> None:
    begin(lab, *deploy("busy", everywhere(21), "L1 R1"), *deploy("idle", Address(22), "L1"))
    for _ in range(6):
        assert lab.dial("P", cluster_ip(21), 80).who
    assert lab.dial("X", vip(21, Family.IPV6), 80).who

    def first() -> wire.ServiceSummary:
        return get(lab, "/status/services", wire.ServiceList, sort="connections").services[0]

    busy = eventually(first, lambda each: each.connections == 7)
    assert busy.service == "busy"

    def rates() -> wire.ServiceRates:
        assert lab.dial("P", cluster_ip(21), 80).who
        return get(lab, "/status/rates", wire.ServiceRates)

    found = eventually(rates, lambda each: "mall/busy" in each.services)
    assert found.services.keys() == {"mall/busy"}
    assert (found.seconds >= 1.0, found.services["mall/busy"] > 0) == (True, True)
    port = get(lab, "/status/services/mall/busy", wire.ServiceDetail).ports[0]
    kinds = {each.kind: each.connections for each in port.frontends}
    assert (kinds["cluster-ip"] or 0) > 6
    assert kinds["load-balancer"] == 0


def test_an_address_that_two_claim(lab: Lab) -> None:
    begin(lab, *deploy("first", everywhere(21), "L1"), *deploy("second", Address(21), "R1"))
    found = get(lab, "/status", wire.DaemonStatus).families[0].conflicts
    first, second = "mall/first:tcp-80", "mall/second:tcp-80"
    assert found == (wire.AddressConflict(f"{cluster_ip(21)}:80/TCP", first, second),)
    detail = get(lab, "/status/services/second", wire.ServiceDetail)
    assert detail.ports[0].conflicts == found


@pytest.mark.parametrize(
    ("source", "destination"),
    [
        pytest.param(HOSTS["P"].ipv4, "novel", id="a-pod-to-a-service"),
        pytest.param("outside", f"{vip(21)}:80", id="outside-to-a-load-balancer"),
        pytest.param("outside", f"[{vip(21, Family.IPV6)}]:80", id="ipv6"),
        pytest.param("host", f"{cluster_ip(21)}:99", id="a-port-that-is-not-served"),
        pytest.param("outside", "mall/poem", id="a-service-without-endpoints"),
    ],
)
def test_packets_are_explained_as_the_tool_explains_them(
    lab: Lab, tmp_path: Path, source: str, destination: str
) -> None:
    begin(
        lab,
        *deploy("novel", everywhere(21), "L1 L2:unready R1", spec=ETP_LOCAL),
        *deploy("poem", Address(22), ""),
    )
    manifests = tmp_path / "cluster.yaml"
    manifests.write_text("\n---\n".join(json.dumps(complete(each)) for each in lab.documents))
    printed = subprocess.run(
        [
            *(*KUBE_PROXY, "explain", f"--manifests={tmp_path}", f"--node={NODE_NAME}"),
            *("--proxy-mode=nftables", CLUSTER_CIDR_FLAG, "--output=json"),
            *(f"--from={source}", f"--to={destination}"),
        ],
        capture_output=True,
        check=True,
        timeout=60,
    )
    query = {"from": source, "to": destination}
    assert json.loads(printed.stdout) == get(lab, "/status/explain", list, **query)


def test_questions_that_it_cannot_answer(lab: Lab) -> None:
    begin(lab, *deploy("novel", Address(21), "L1"))
    status, text = ask(lab.network.node, "/status/explain?from=mall/reader&to=novel")
    assert status == 400
    assert text.startswith("from mall/reader: it is no address, and the daemon knows no Pods")


@pytest.mark.parametrize("family", Family)
def test_the_whole_table_can_be_read(lab: Lab, family: Family) -> None:
    begin(lab, *deploy("novel", everywhere(21), "L1 R1", [Port(node_port=31080)]))

    def table() -> Desired:
        status, body = over_socket(lab.socket, f"/status/table?family={family.value}")
        assert status == 200
        return read_table(body)

    found = eventually(table, lambda each: not each.syncing)
    assert [str(name) for name in sorted(found.table.entries)] == [
        "lab/pulse:pulse",
        "mall/novel:tcp-80",
    ]
    assert found.config.mode == "nftables"
    assert found.node.family is family
    expected = get(lab, "/status", wire.DaemonStatus).families
    assert found.syncs in {each.syncs for each in expected if each.ip_family == family.value}


def test_only_this_host_may_ask_and_the_socket_always_answers(lab: Lab) -> None:
    address = HOSTS["H"].ipv4
    outside = lab.network.namespaces[HOSTS["X"].namespace]
    everywhere_ = "--metrics-bind-address=0.0.0.0:10249"
    begin(lab, flags=(everywhere_,))
    status, text = ask(outside, "/status/services", address)
    assert (status, "--status-page=all" in text) == (403, True)
    assert ask(lab.network.node, "/status", headers={"Host": "evil.example"})[0] == 403
    begin(lab, flags=(everywhere_, "--status-page=all"))
    assert ask(outside, "/status/services", address)[0] == 200
    begin(lab, flags=(everywhere_, "--status-page=none"))
    assert ask(lab.network.node, "/status")[0] == 404
    assert over_socket(lab.socket, "/status")[0] == 200
    assert over_socket(lab.socket, "/rules")[0] == 200
    assert over_socket(lab.socket, "/metrics")[0] == 200
    assert over_socket(lab.socket, "/proxyMode")[0] == 404


def test_what_a_killed_daemon_left_is_replaced_by_the_next(lab: Lab) -> None:
    begin(lab)
    before = get(lab, "/status", wire.DaemonStatus)
    lab.restart(signal.SIGKILL)
    status, body = over_socket(lab.socket, "/status")
    assert status == 200
    assert msgspec.json.decode(body, type=wire.DaemonStatus).pid != before.pid


def test_the_socket_is_the_daemons_alone_and_goes_with_it(lab: Lab) -> None:
    begin(lab)
    assert stat.S_IMODE(lab.socket.stat().st_mode) == 0o600
    lab.stop()
    assert not lab.socket.exists()
