"""New connections of real traffic, as `kube-proxy trace` shows them."""

import re
import signal
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from kubeproxy.base.inet import Family, join
from kubeproxy.linux.nfnetlink import Nfnetlink
from lab.confined import through
from lab.deploy import UDP
from lab.modes import only
from lab.plan import HOSTS, cluster_ip, vip
from lab.salvo import Salvo
from lab.stage import Lab
from lab.test_conntrack import many
from lab.test_trace_frontends import JSON, serve
from lab.tracer import Tracer

pytestmark = only("nftables", reason="the tools and pages are the same in every mode")


def test_in_a_terminal(lab: Lab) -> None:
    serve(lab, "R1")
    with Tracer(lab.network.node, "--to", "web:tcp-80", terminal=True, columns=200) as tracer:
        outcome = lab.dial("X", HOSTS["H"].ipv4, 31080)
        tracer.wait_lines(2)
        header, line = tracer.lines[:2]
        assert header.startswith("\x1b[1mTIME  ")
        header = re.sub(r"\x1b\[\d*m", "", header)
        for column, text in (
            ("PROTO", "TCP"),
            ("CLIENT", str(outcome.sent_from)),
            ("DIALLED", f"{HOSTS['H'].ipv4}:31080"),
            ("ENDPOINT", f"{HOSTS['R1'].ipv4}:8080"),
            ("NODE", "heron"),
            ("MASQUERADED", f"as {outcome.saw}"),
        ):
            assert line.startswith(text, header.index(column)), tracer.said
        assert tracer.press_ctrl_c() == 0
        summary = ["1 connection, 1 shown, nothing lost", f"  {HOSTS['R1'].ipv4}:8080  1"]
        assert tracer.lines[-2:] == summary


def test_in_a_pipe_lines_come_at_once_and_without_colours(lab: Lab) -> None:
    serve(lab)
    with Tracer(lab.network.node, "--to", "web") as tracer:
        for count in range(3):
            lab.dial("P", cluster_ip(21), 80)
            tracer.wait_lines(count + 2)
        assert "\x1b" not in tracer.said
        assert tracer.said.startswith("TIME ")
        assert tracer.interrupt(signal.SIGTERM) == 0


def test_only_what_is_asked_for(lab: Lab) -> None:
    serve(lab, "L1 L2 R1")
    wanted = f"{HOSTS['R1'].ipv4}:8080"
    filters = ("--from", "192.0.2.0/24", "--endpoint", wanted, "--count", "3")
    with Tracer(lab.network.node, "--to", "web", *filters, *JSON) as tracer:
        lab.dial("P", cluster_ip(21), 80)
        answered = lab.dial_crowd(vip(21), 80)
        assert answered.count("R1") >= 3
        assert tracer.end() == 0
        found = tracer.wait_for(3)
    assert {each.endpoint for each in found} == {wanted}
    assert all(each.client.startswith("192.0.2.") for each in found)


def test_it_ends_after_a_while(lab: Lab) -> None:
    serve(lab)
    with Tracer(lab.network.node, "--to", "web", "--seconds", "0.2") as tracer:
        assert tracer.end() == 0
        assert tracer.lines[-1] == "0 connections, 0 shown, nothing lost"


def test_an_endpoint_that_comes_is_named(lab: Lab) -> None:
    serve(lab, "L1")
    with Tracer(lab.network.node, "--to", "web", *JSON) as tracer:
        lab.dial("P", cluster_ip(21), 80)
        assert tracer.wait_for(1)[0].node == "kestrel"
        serve(lab, "R2")

        def is_named() -> bool:
            lab.dial("P", cluster_ip(21), 80)
            return any(each.node == "merlin" for each in tracer.connections)

        tracer.wait(is_named)
        unnamed = [each for each in tracer.connections[1:] if each.node != "merlin"]
    assert {(each.endpoint, each.on_this_node) for each in unnamed} <= {
        (f"{HOSTS['R2'].ipv4}:8080", None)
    }


def test_several_services_are_distinguished(lab: Lab) -> None:
    serve(lab)
    to = ("--to", "web:80", "--to", "mall/other", "--to", f"{cluster_ip(21)}:53/udp")
    with Tracer(lab.network.node, *to) as tracer:
        lab.dial("P", cluster_ip(21), 80)
        lab.dial("P", cluster_ip(22), 80)
        lab.dial("P", cluster_ip(21), 53, UDP)
        tracer.wait_lines(4)
    assert [line.split()[2] for line in tracer.lines[1:]] == [
        "mall/web:tcp-80",
        "mall/other:tcp-80",
        "?",
    ]


def test_an_address_that_is_not_translated(lab: Lab) -> None:
    serve(lab)
    with Tracer(lab.network.node, "--to", f"{vip(99)}:80", *JSON) as tracer:
        assert lab.dial("P", vip(99), 80).who == "W"
        (seen,) = tracer.wait_for(1)
    assert (seen.destination, seen.endpoint) == (f"{vip(99)}:80", None)


@pytest.mark.parametrize("family", Family)
def test_thousands_at_once_are_shown_in_part_and_all_counted(lab: Lab, family: Family) -> None:
    serve(lab)
    destination = (cluster_ip(21, family), 53)
    with Tracer(lab.network.node, "--to", "web:53/udp", "--rate", "10", *JSON) as tracer:
        hits = Salvo(lab.network).fire([destination] * 3000)
        tracer.wait(lambda: "more in the last second" in tracer.said)
        assert tracer.interrupt() == 0
    total = re.search(r"^([\d,]+) connections, (\d+) shown, (.*)$", tracer.said, re.MULTILINE)
    assert total is not None, tracer.said
    assert int(total[2]) == len(tracer.connections) < number(total[1])
    assert (number(total[1]), total[3]) == (3000, "nothing lost")
    counts = dict(re.findall(r"^  (\S+) +([\d,]+)$", tracer.said, re.MULTILINE))
    answered = Counter(join(hit.endpoint.split()[0], 53) for hit in hits)
    assert sum(map(number, counts.values())) == 3000
    assert all(number(counts[name]) >= count for name, count in answered.items())


def test_what_comes_too_fast_is_lost_and_said(lab: Lab) -> None:
    """More than its buffer holds, while it cannot read."""
    serve(lab)
    with Tracer(lab.network.node, "--to", "web:80") as tracer:
        tracer.wait_lines(1)
        with tracer.paused():
            track(lab, 20_000)
        tracer.wait(lambda: "events of this node came too fast and are lost" in tracer.said)

        def is_shown() -> bool:
            lab.dial("P", cluster_ip(21), 80)
            return "cluster-ip" in tracer.said

        tracer.wait(is_shown)
        assert tracer.interrupt() == 0
    assert re.search(r"\n\d+ connections?, \d+ shown, [\d,]+ events of this node", tracer.said)


def track(lab: Lab, count: int) -> None:
    """Have kestrel's kernel track so many flows of others."""
    requests = many(count)
    with lab.network.node.entered(), Nfnetlink() as link:
        while chunk := b"".join(islice(requests, 500)):
            link.send(chunk, "cannot make flows")
            assert list(link.received()) == []


def number(text: str) -> int:
    return int(text.replace(",", ""))


@pytest.mark.parametrize(
    ("terminal", "codes"),
    [(False, {128 + signal.SIGPIPE}), (True, {-signal.SIGHUP, 128 + signal.SIGPIPE})],
    ids=["pipe", "terminal"],
)
def test_it_ends_when_its_output_is_closed(lab: Lab, terminal: bool, codes: set[int]) -> None:
    """Nothing is left behind by `trace | head -1`, or in a window that is closed.

    A terminal that is closed is both a signal and an end of the output; the kernel tells whoever
    waits for the output first, and another processor may be quicker than the signal.
    """
    serve(lab)
    with Tracer(lab.network.node, "--to", "web", terminal=terminal) as tracer:
        tracer.wait_lines(1)
        assert tracer.hang_up() in codes


# --- what may be missing ----------------------------------------------------------------------


def test_a_service_without_ready_endpoints(lab: Lab) -> None:
    serve(lab, "L1:unready")
    with Tracer(lab.network.node, "--to", "web:80") as tracer:
        lab.dial("P", cluster_ip(21), 80)
        lab.dial("X", HOSTS["H"].ipv4, 31080)
        tracer.wait_lines(3)
        assert tracer.interrupt() == 0
    why = "the service has no endpoint that can serve"
    for row in tracer.lines[1:3]:
        assert re.search(f" refused  +-  +-  +{why}$", row)
    assert "0 connections, 0 shown, nothing lost" in tracer.lines


@pytest.mark.parametrize(
    ("to", "message"),
    [
        (
            "mall/wep",
            "--to mall/wep: no service ports for mall/wep\nnamespace mall has: other, web",
        ),
        ("wep", "--to wep: no Service named wep is proxied: kube-proxy services --search TEXT"),
        (
            "web:443",
            "--to web:443: Service mall/web has no such port: it has tcp-80 (80/TCP), udp-53 (53/",
        ),
    ],
    ids=["a-name-in-a-namespace", "a-name", "a-port"],
)
def test_what_is_not_there(lab: Lab, to: str, message: str) -> None:
    serve(lab)
    with Tracer(lab.network.node, "--to", to) as tracer:
        assert tracer.end() == 1
        assert message in tracer.said


def test_without_a_daemon_an_address_is_traced_and_a_service_is_not(lab: Lab) -> None:
    lab.stop()
    with Tracer(lab.network.node, "--to", "web") as tracer:
        assert tracer.end() == 3
        assert tracer.said.startswith("Error: no kube-proxy answers here:\n")
    lab.network.node.run(
        ["nft", "-f", "-"],
        stdin="table ip t { chain c {\n"
        "type nat hook prerouting priority dstnat\n"
        f"ip daddr {cluster_ip(21)} tcp dport 80 dnat to {HOSTS['R1'].ipv4}:8080\n}}\n}}\n",
    )
    with Tracer(lab.network.node, "--to", f"{cluster_ip(21)}:80", "--count=1", *JSON) as tracer:
        assert lab.dial("P", cluster_ip(21), 80).who == "R1"
        assert tracer.end() == 0
        (seen,) = tracer.wait_for(1)
    assert (seen.endpoint, seen.node, seen.on_this_node) == (f"{HOSTS['R1'].ipv4}:8080", "", None)
    lab.stop()


def test_net_admin_is_right_enough(lab: Lab) -> None:
    """As in the daemon's container: `kubectl exec`."""
    serve(lab)
    confined = through(["NET_ADMIN"])
    with Tracer(lab.network.node, "--to", "web", "--count=1", through=confined) as tracer:
        lab.dial("P", cluster_ip(21), 80)
        assert tracer.end() == 0
        assert "1 connection, 1 shown, nothing lost" in tracer.lines
        assert "note:" not in tracer.said


def test_without_the_right_to_listen(lab: Lab) -> None:
    # In a user namespace below, a process has no power over this network namespace.
    with Tracer(lab.network.node, "--to", "10.0.0.1:80", through=["unshare", "-U"]) as tracer:
        assert tracer.end() == 1
        assert "needs CAP_NET_ADMIN in the node's network namespace; run it as root" in tracer.said


def test_where_events_are_switched_off(lab: Lab) -> None:
    serve(lab)
    setting = "netfilter/nf_conntrack_events"
    with lab.network.node.entered():
        before = Path("/proc/sys/net", setting).read_text()
    lab.network.node.sysctl([(setting, "0")])
    try:
        with Tracer(lab.network.node, "--to", "web") as tracer:
            assert tracer.end() == 1
            assert "run `sysctl -w net.netfilter.nf_conntrack_events=1`" in tracer.said
    finally:
        lab.network.node.sysctl([(setting, before)])


def test_how_connections_are_tracked(lab: Lab) -> None:
    serve(lab)
    with Tracer(lab.network.node, "--to", "web", "-v") as tracer:
        opened = lab.connect("P", cluster_ip(21), 80)
        opened.talk()
        tracer.wait_lines(2)
        assert tracer.interrupt() == 0
        status = "answered, assured, destination translated"
        expected = f"  TCP {opened.sent_from} to {cluster_ip(21)}:80: {status}"
        assert tracer.lines[-1] == expected
