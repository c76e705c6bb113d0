"""Whether connections are answered, as `kube-proxy trace` says of real ones; and all Services."""

import pytest

from kubeproxy.base.inet import Family
from lab.deploy import UDP, Address, Port, deploy
from lab.modes import only
from lab.plan import cluster_ip
from lab.stage import Lab
from lab.test_trace_frontends import JSON, serve
from lab.tracer import Tracer

pytestmark = only("nftables", reason="the tools and pages are the same in every mode")


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


def test_without_a_service_all_are_traced(lab: Lab) -> None:
    serve(lab)
    with Tracer(lab.network.node, *JSON) as tracer:
        answered = [lab.dial("P", cluster_ip(number), 80) for number in (21, 22)]
        found = tracer.wait_for(2)
    assert [each.service_port for each in found] == ["mall/web:tcp-80", "mall/other:tcp-80"]
    assert [each.endpoint for each in found] == [str(each.at) for each in answered]
    assert {each.outcome for each in found} == {"answered"}


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
