"""In the guest: the table of another program is taken over, given back, and taken over again."""

from kernels.report import Report
from kubeproxy.base.inet import Family
from kubeproxy.table.entries import Backend
from lab.connection import Connection
from lab.deploy import Port, deploy, everywhere
from lab.differ import EQUAL, run_diff
from lab.documents import kestrel, service_cidr
from lab.generations import Generations
from lab.plan import HOSTS, cluster_ip
from lab.stage import CLUSTER_CIDR_FLAG, Lab
from lab.upstream import SINCE_1_33, Service, Upstream, start
from world import NODE_IP

NODE_PORT = 31080


def load_theirs(lab: Lab) -> None:
    """Do what the Go kube-proxy does when it starts, over whatever is there."""
    node = lab.network.node
    for family in Family:
        backends = tuple(Backend(HOSTS[name].address(family), 8080) for name in ("L1", "R1"))
        service = Service("cart", cluster_ip(21, family), NODE_PORT, backends)
        go = Upstream(family, SINCE_1_33, (NODE_IP[family],))
        node.run(["nft", "-f", "-"], stdin=start(go, [service], node))


def check_served(lab: Lab, report: Report, who: str) -> list[Connection]:
    """Connections from a pod and to a node port, which stay open."""
    found = []
    for family in Family:
        with report.check(f"{who} serves, {family.value}"):
            found.append(lab.connect("P", cluster_ip(21, family), 80))
            found.append(lab.connect("X", NODE_IP[family], NODE_PORT))
            assert {each.answer.who for each in found} <= {"L1", "R1"}
    return found


def take_over(lab: Lab, report: Report) -> None:
    """Start our daemon on their table."""
    documents = deploy("cart", everywhere(21), "L1 R1", [Port(node_port=NODE_PORT)])
    with report.check("a take-over is one transaction a family"):
        with Generations(lab.network.node) as generations:
            # Not by the lab, which would remove their table first.
            flags = [*lab.variant.flags, CLUSTER_CIDR_FLAG]
            lab.daemon.start(flags, (kestrel(), service_cidr(), *documents))
        assert len(generations.seen) == len(Family), generations.seen
    with report.check("nothing of theirs is left"):
        found = run_diff(lab.network.node, f"--socket={lab.socket}")
        assert found == EQUAL, found


def there_and_back(lab: Lab, report: Report) -> None:
    """Their table, ours, and theirs again."""
    lab.stop()
    load_theirs(lab)
    connections = check_served(lab, report, "their table")
    take_over(lab, report)
    connections += check_served(lab, report, "our table")
    lab.daemon.stop()
    with report.check("their first transaction is accepted over ours"):
        load_theirs(lab)
    connections += check_served(lab, report, "their table again")
    with report.check("connections that were open all the time go on"):
        for connection in connections:
            connection.talk()
