"""What only userspace mode has: connections through processes of the proxy."""

import os
import signal
import time

import pytest

from kubeproxy.base.inet import Family
from lab.deploy import Port, deploy, everywhere, mall
from lab.plan import cluster_ip
from lab.stage import Lab

PORTS = [Port(node_port=31080)]


def test_connections_go_on_while_services_change(lab: Lab) -> None:
    lab.run(documents=mall())
    connections = [
        lab.connect(source, cluster_ip(21, family), 80) for source in "PX" for family in Family
    ]
    for documents in ((), deploy("cart", everywhere(21), "R2", PORTS), mall()):
        lab.put(*documents)
        for connection in connections:
            connection.talk()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_the_daemon_is_a_reset(lab: Lab, number: signal.Signals) -> None:
    lab.run(documents=mall())
    connection = lab.connect("P", cluster_ip(21, Family.IPV4), 80)
    connection.talk()
    lab.restart(number)
    with pytest.raises(ConnectionResetError):
        connection.talk()
    assert lab.dial("P", cluster_ip(21, Family.IPV4), 80).who in {"L1", "R1"}


def test_a_worker_that_is_killed_is_replaced(lab: Lab) -> None:
    lab.run("--userspace-workers=2", documents=mall())
    before = set(lab.daemon.workers)
    assert len(before) == 4  # of each family
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 30.0
    while len(set(lab.daemon.workers) - before) < 4:
        assert time.monotonic() < deadline, "not replaced in 30 s"
        lab.put()
    lab.compare()
    assert "A worker has ended, with its connections" in lab.daemon.log()
