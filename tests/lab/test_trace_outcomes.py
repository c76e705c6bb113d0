"""Whether connections are answered, as `kube-proxy trace` says of real ones; and all Services."""

import contextlib
import signal
import socket

import pytest

from kubeproxy.base.inet import Family
from lab.deploy import ETP_LOCAL, NARROW_RANGES, UDP, Address, Port, deploy, everywhere
from lab.documents import in_family
from lab.foreign import foreign_changes
from lab.modes import differs, only
from lab.plan import HOSTS, NODE_NAME_OF, cluster_ip, vip
from lab.stage import Lab
from lab.test_trace_frontends import JSON, serve
from lab.tracer import Tracer

anywhere = only("nftables", reason="the tools and pages are the same in every mode")
in_ip = differs("ipvs", reason="nf_tables of the test kernel knows no IP")


@differs("userspace", reason="the listener answers, whatever its endpoint does")
@pytest.mark.parametrize("family", Family)
def test_answered_refused_and_not_answered(lab: Lab, family: Family) -> None:
    nobody = (Port(81, 9), Port(54, 9, protocol=UDP))
    lab.run(documents=[*deploy("web", Address(21), "L1", (Port(), *nobody))])
    with Tracer(lab.network.node, "--to", "web", *JSON) as tracer:
        lab.dial("P", cluster_ip(21, family), 80)
        lab.dial("P", cluster_ip(21, family), 81)
        tracer.wait_for(2)
        lab.dial("P", cluster_ip(21, family), 54, UDP)
        found = tracer.wait_for(3)
    assert [each.outcome for each in found] == ["answered", "refused", "unanswered"]


@anywhere
def test_without_a_service_all_are_traced(lab: Lab) -> None:
    serve(lab)
    with Tracer(lab.network.node, *JSON) as tracer:
        answered = [lab.dial("P", cluster_ip(number), 80) for number in (21, 22)]
        found = tracer.wait_for(2)
    assert [each.service_port for each in found] == ["mall/web:tcp-80", "mall/other:tcp-80"]
    assert [each.endpoint for each in found] == [str(each.at) for each in answered]
    places = [NODE_NAME_OF[each.who] == NODE_NAME_OF["L1"] for each in answered]
    assert [each.on_this_node for each in found] == places
    assert {each.outcome for each in found} == {"answered"}


@anywhere
@pytest.mark.parametrize("columns", [70, 80, 100, 160])
def test_rows_fit_the_terminal(lab: Lab, columns: int) -> None:
    serve(lab)
    with Tracer(lab.network.node, terminal=True, columns=columns) as tracer:
        lab.dial("P", cluster_ip(21), 80)
        lab.dial("P", cluster_ip(21, Family.IPV6), 80)
        tracer.wait(lambda: tracer.said.count("answered") == 2)
        shown = [line.replace("\x1b[1m", "").replace("\x1b[0m", "") for line in tracer.lines]
        assert max(map(len, shown)) <= columns
        assert tracer.press_ctrl_c() == 0


# --- what the rules refuse and drop -----------------------------------------------------------

NO_ENDPOINT = "the service has no endpoint that can serve"


@in_ip
@pytest.mark.parametrize("family", Family)
def test_refused_and_dropped_connections_are_shown_with_the_reason(
    lab: Lab, family: Family
) -> None:
    serve(lab, "L1:unready")
    with Tracer(lab.network.node, *JSON) as tracer:
        lab.dial("P", cluster_ip(21, family), 80)
        lab.dial("P", cluster_ip(21, family), 53, UDP)
        lab.dial("X", in_family(HOSTS["H"].ipv4, family), 31080)
        lab.dial("P", cluster_ip(22, family), 80)
        tracer.wait(lambda: len(tracer.connections) >= 4)
        assert tracer.interrupt() == 0
        refused = [each for each in tracer.connections if each.outcome != "answered"]
    assert [(each.protocol, each.frontend, each.why) for each in refused] == [
        ("TCP", "cluster-ip", NO_ENDPOINT),
        ("UDP", "cluster-ip", NO_ENDPOINT),
        ("TCP", "node-port", NO_ENDPOINT),
    ]
    assert {each.outcome for each in refused} == {"reject"}
    assert "3 connections refused or dropped, 3 shown" in tracer.lines
    assert f"  mall/web:tcp-80  2  refused: {NO_ENDPOINT}" in tracer.lines


@in_ip
def test_source_ranges_and_the_policy_local(lab: Lab) -> None:
    lab.run(
        documents=[
            *deploy("near", everywhere(21), "R1", [Port(node_port=31080)], ETP_LOCAL),
            *deploy("walled", everywhere(22), "L1", (Port(),), NARROW_RANGES),
        ]
    )
    with Tracer(lab.network.node, *JSON) as tracer:
        lab.dial("X", vip(21), 80)
        lab.dial("P", vip(22), 80)
        lab.dial("X", vip(22), 80)
        tracer.wait(lambda: len(tracer.connections) >= 3)
        found = [(each.service_port, each.outcome, each.reason) for each in tracer.connections]
    assert sorted(found) == [
        ("mall/near:tcp-80", "drop", "no-local-endpoints"),
        ("mall/walled:tcp-80", "answered", ""),
        ("mall/walled:tcp-80", "drop", "source-ranges"),
    ]


def tables(lab: Lab) -> str:
    """Those of traces, as nft lists them."""
    listed = lab.network.node.run(["nft", "list", "tables"]).splitlines()
    return "\n".join(line for line in listed if "trace" in line)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@anywhere
def test_nothing_is_left_behind(lab: Lab, number: signal.Signals) -> None:
    serve(lab, "L1:unready")
    before = foreign_changes(lab)
    with Tracer(lab.network.node) as tracer, Tracer(lab.network.node) as other:
        other.wait_lines(1)
        tracer.wait_lines(1)
        assert len(tables(lab).splitlines()) == 2 * len(Family)
        assert tracer.interrupt(number) == (-number if number is signal.SIGKILL else 0)
        assert len(tables(lab).splitlines()) == len(Family)
        assert other.interrupt(number) in {0, -number}
    assert tables(lab) == ""
    serve(lab)
    assert foreign_changes(lab) == before


@anywhere
def test_a_service_that_loses_its_endpoints_meanwhile(lab: Lab) -> None:
    serve(lab)
    with Tracer(lab.network.node, "--to", "web:80", *JSON) as tracer:
        lab.dial("P", cluster_ip(21), 80)
        serve(lab, "L1:unready")

        def is_refused() -> bool:
            lab.dial("P", cluster_ip(21), 80)
            return any(each.outcome == "reject" for each in tracer.connections)

        tracer.wait(is_refused)


@anywhere
def test_packets_that_come_too_fast_are_lost_and_said(lab: Lab) -> None:
    """More than its buffer holds, while it cannot read."""
    serve(lab, "L1:unready")
    with Tracer(lab.network.node, "--to", "web:53/udp", *JSON) as tracer:
        with (
            tracer.paused(),
            lab.network.node.entered(),
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client,
        ):
            for _ in range(40_000):
                with contextlib.suppress(OSError):  # how a refusal looks here
                    client.sendto(b"x", (cluster_ip(21), 53))
        tracer.wait(lambda: "events of this node came too fast and are lost" in tracer.said)
        assert len(tracer.connections) == 1
        assert tracer.interrupt() == 0
