"""What `kube-proxy trace` shows of each kind of frontend."""

import pytest

from kubeproxy.base.inet import Family, Protocol, join
from lab.deploy import UDP, Address, Port, deploy, everywhere
from lab.documents import in_family
from lab.modes import differs
from lab.outcome import Outcome
from lab.plan import HOSTS, NODE_NAME_OF, cluster_ip, external_ip, vip
from lab.stage import Lab
from lab.tracer import Seen, Tracer

PORTS = (Port(node_port=31080), Port(53, 53, 31081, UDP))
JSON = ("-o", "json")


def serve(lab: Lab, endpoints: str = "L1 R1") -> None:
    """A service with all kinds of frontends, and another one."""
    lab.run(
        documents=[
            *deploy("web", everywhere(21), endpoints, PORTS),
            *deploy("other", Address(22), "L2"),
        ]
    )


def frontends(family: Family, protocol: Protocol) -> dict[str, tuple[str, int]]:
    port, node_port = (80, 31080) if protocol is Protocol.TCP else (53, 31081)
    return {
        "cluster-ip": (cluster_ip(21, family), port),
        "load-balancer": (vip(21, family), port),
        "external-ip": (external_ip(21, family), port),
        "node-port": (in_family(HOSTS["H"].ipv4, family), node_port),
    }


def check(seen: Seen, outcome: Outcome) -> None:
    """Compare what the trace says with what the endpoint says that answered."""
    assert outcome.at is not None, str(outcome)
    node = NODE_NAME_OF[outcome.who]
    assert (seen.client, seen.endpoint) == (str(outcome.sent_from), str(outcome.at))
    assert (seen.node, seen.on_this_node) == (node, node == "kestrel")
    kept = outcome.saw == outcome.sent_from
    assert seen.source_rewritten_to == (None if kept else str(outcome.saw))


@differs("userspace", reason="the packets end at a listener, which opens another connection")
@pytest.mark.parametrize("protocol", [Protocol.TCP, Protocol.UDP])
@pytest.mark.parametrize("family", Family)
def test_each_frontend_shows_the_endpoint_and_the_source_it_sees(
    lab: Lab, family: Family, protocol: Protocol
) -> None:
    serve(lab)
    with Tracer(lab.network.node, "--to", "mall/web", *JSON) as tracer:
        dialled = []
        for kind, (address, port) in frontends(family, protocol).items():
            for source in ("P", "H", "X", "L1"):
                outcome = lab.dial(source, address, port, protocol)
                dialled.append((kind, join(address, port), outcome))
        lab.dial("P", cluster_ip(22, family), 80)
        found = tracer.wait_for(len(dialled))
        name = f"mall/web:{'tcp-80' if protocol is Protocol.TCP else 'udp-53'}"
        for seen, (kind, destination, outcome) in zip(found, dialled, strict=True):
            assert (seen.frontend, seen.destination) == (kind, destination)
            assert (seen.service_port, seen.protocol) == (name, protocol.name)
            assert seen.ip_family == family.value
            check(seen, outcome)
        assert tracer.interrupt() == 0
        assert f"{len(dialled)} connections, {len(dialled)} shown, nothing lost" in tracer.lines


@differs("userspace", reason="the packets end at a listener, which opens another connection")
def test_masquerade_and_hairpin(lab: Lab) -> None:
    serve(lab, "L1")
    with Tracer(lab.network.node, "--to", "web:80", *JSON) as tracer:
        kept = lab.dial("P", cluster_ip(21), 80)
        hairpin = lab.dial("L1", cluster_ip(21), 80)
        outside = lab.dial("X", HOSTS["H"].ipv4, 31080)
        found = tracer.wait_for(3)
    rewritten = [each.source_rewritten_to for each in found]
    assert rewritten == [None, str(hairpin.saw), str(outside.saw)]
    assert (kept.saw, hairpin.who) == (kept.sent_from, "L1")
    assert all(text and text.startswith(f"{HOSTS['H'].ipv4}:") for text in rewritten[1:])
