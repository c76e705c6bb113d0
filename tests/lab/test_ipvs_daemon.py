"""The daemon in ipvs mode: what it leaves alone, repairs, survives, sets, removes and refuses."""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kubeproxy.base.inet import Family
from lab.deploy import Port, deploy, everywhere
from lab.documents import kestrel, service_cidr
from lab.foreign import foreign_changes
from lab.ipvs import DEVICE, addresses, reals, servers
from lab.plan import HOSTS, UPLINK, cluster_ip, external_ip, vip
from lab.programmer import DaemonProcess
from lab.stage import Lab

KUBE_PROXY = (sys.executable, "-m", "kubeproxy")
FOREIGN, EXCLUDED = "192.0.2.1:443", "172.31.0.1:443"
PORTS = [Port(node_port=31080)]


@pytest.fixture
def daemon(lab: Lab) -> DaemonProcess:
    return lab.daemon


def eventually(condition: Callable[[], bool], what: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30.0
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.2)


def add_server(lab: Lab, address: str) -> None:
    lab.network.node.run(["ipvsadm", "-A", "-t", address, "-s", "wlc"])


def sysctl(lab: Lab, name: str) -> str:
    return lab.network.node.run(["cat", f"/proc/sys/net/{name}"]).strip()


def test_settings_reach_the_kernel_and_what_is_excluded_stays(lab: Lab) -> None:
    lab.run(
        "--ipvs-scheduler=mh",
        "--ipvs-exclude-cidrs=172.31.0.0/16",
        "--ipvs-strict-arp",
        "--ipvs-tcp-timeout=800s",
        "--ipvs-udp-timeout=70s",
        documents=deploy("cart", everywhere(21), "L1 R1", PORTS),
    )
    add_server(lab, EXCLUDED)
    add_server(lab, FOREIGN)
    lab.restart()
    found = servers(lab.network.node)
    assert f"-t {EXCLUDED} -s wlc" in found
    assert not any(FOREIGN in each for each in found)
    assert f"-t {cluster_ip(21)}:80 -s mh -b mh-port" in found
    said = lab.network.node.run(["ipvsadm", "-L", "--timeout"])
    assert said == "Timeout (tcp tcpfin udp): 800 120 70\n"
    wanted = {
        "ipv4/vs/conntrack": "1",
        "ipv4/vs/expire_nodest_conn": "1",
        "ipv4/vs/expire_quiescent_template": "1",
        "ipv4/conf/all/arp_ignore": "1",
        "ipv4/conf/all/arp_announce": "2",
    }
    assert wanted == {name: sysctl(lab, name) for name in wanted}
    lab.put()
    assert f"-t {EXCLUDED} -s wlc" in servers(lab.network.node)
    for name in ("arp_ignore", "arp_announce"):
        lab.network.node.sysctl([(f"ipv4/conf/all/{name}", "0")])


@pytest.mark.parametrize("family", Family, ids=lambda family: family.value)
def test_which_addresses_are_bound_and_which_servers_there_are(lab: Lab, family: Family) -> None:
    own = external_ip(21, family)
    with lab.network.node_address(own):
        lab.run(documents=deploy("cart", everywhere(21), "L1", PORTS))
        pulse = cluster_ip(255, family)
        assert sorted(addresses(lab.network.node, family)) == sorted(
            [cluster_ip(21, family), vip(21, family), pulse]
        )
        node = HOSTS["H"].address(family)
        for address, port in ((own, 80), (vip(21, family), 80), (node, 31080), (own, 31080)):
            found = reals(lab.network.node, address, port)
            in_use = [real for real, weight in found.items() if weight]  # others may drain still
            assert in_use == [HOSTS["L1"].address(family)], (address, port)
        lab.network.node.run(["ip", "address", "add", "192.0.2.99/32", "dev", DEVICE])
    lab.put()
    lab.restart()
    assert addresses(lab.network.node, family) == [pulse]


@pytest.mark.parametrize(
    "destruction",
    [
        "ipvsadm -C",
        f"ip address flush dev {DEVICE}",
        f"ip link del {DEVICE}",
        "iptables -t nat -F; ip6tables -t filter -F",
        "for set in $(ipset list -n); do ipset flush $set; done",
    ],
    ids=["servers", "addresses", "device", "rules", "sets"],
)
def test_what_others_destroy_is_repaired(
    lab: Lab, daemon: DaemonProcess, destruction: str
) -> None:
    lab.run("--ipvs-sync-period=2s", documents=deploy("cart", everywhere(21), "L1 R1", PORTS))
    node = lab.network.node
    show = ["sh", "-c", "ipvsadm -Sn; ipset save; iptables-save; ip6tables-save"]

    def state() -> set[str]:
        text = "\n".join([node.run(show), *addresses(node), *addresses(node, Family.IPV6)])
        lines = (line for line in text.splitlines() if line[:1] not in "#:")
        return {line.partition("initval")[0] for line in lines}

    before = state()
    with daemon.paused():
        node.run(["sh", "-c", destruction])
        assert state() != before
    eventually(lambda: state() == before, lambda: state() ^ before)


@pytest.mark.parametrize(
    "destruction",
    [
        f"ip address flush dev {DEVICE}",
        f"ip link del {DEVICE}",
        f"ip address add 192.0.2.99/32 dev {DEVICE}",
    ],
    ids=["addresses", "device", "an-address-more"],
)
def test_what_others_do_to_addresses_is_repaired_at_once(lab: Lab, destruction: str) -> None:
    lab.run("--ipvs-sync-period=600s", documents=deploy("cart", everywhere(21), "L1 R1", PORTS))
    node = lab.network.node

    def state() -> list[str]:
        return sorted([*addresses(node), *addresses(node, Family.IPV6)])

    before = state()
    with lab.daemon.paused():
        node.run(destruction.split())
        assert state() != before
    eventually(lambda: state() == before, state)
    repaired = foreign_changes(lab)
    assert repaired
    lab.put(*deploy("cart", everywhere(22), "L1", PORTS))  # what we do ourselves is no damage
    lab.put(*deploy("cart", everywhere(21), "L1 R1", PORTS))
    assert foreign_changes(lab) == repaired


def test_killed_at_any_point_it_comes_back_and_connections_live_on(
    lab: Lab, daemon: DaemonProcess
) -> None:
    chance = random.Random(5)
    names = ("L2", "L3", "R1", "R2")
    lab.run(documents=deploy("cart", everywhere(21), "L1", PORTS))
    connections = [
        lab.connect(source, address, 80)
        for source in ("P", "X", "H")
        for family in Family
        for address in (cluster_ip(21, family), vip(21, family))
    ]
    flags = lab._flags
    assert flags is not None
    for _ in range(3):
        services = [
            deploy("cart", everywhere(21), " ".join(chance.sample(names, 2)), PORTS),
            *(deploy(f"s{n}", everywhere(n), "L1 R2") for n in chance.sample(range(22, 36), 8)),
        ]
        every = [document for each in services for document in each]
        lab.documents = (kestrel(), service_cidr(), *every)
        daemon.write(lab.documents)
        time.sleep(chance.random())
        daemon.stop(signal.SIGKILL)
        for connection in connections:
            connection.talk()
        daemon.start(flags, lab.documents)
        for connection in connections:
            connection.talk()
    lab.compare(sources=("P", "X"))


def test_cleanup_leaves_what_is_not_ours(lab: Lab) -> None:
    lab.run(documents=deploy("cart", everywhere(21), "L1 R1", PORTS))
    lab._programmer.stop()
    lab._flags = None
    add_server(lab, FOREIGN)
    node = lab.network.node
    node.run(["ipset", "create", "theirs", "hash:ip"])
    node.run(["iptables", "-A", "INPUT", "-s", "192.0.2.7", "-j", "DROP"])
    node.run([*KUBE_PROXY, "--cleanup"])
    assert servers(node) == [f"-t {FOREIGN} -s wlc"]
    assert node.run(["ipset", "list", "-n"]).split() == ["theirs"]
    assert DEVICE not in node.run(["ip", "-brief", "link"])
    rules = node.run(["sh", "-c", "iptables-save; ip6tables-save"])
    assert [line for line in rules.splitlines() if line.startswith("-A")] == [
        "-A INPUT -s 192.0.2.7/32 -j DROP"
    ]
    assert HOSTS["H"].ipv4 in node.run(["ip", "-brief", "address", "show", UPLINK])


def refusal(lab: Lab, manifests: Path, *flags: str) -> str:
    """What a start that must fail says."""
    command = [*KUBE_PROXY, "--proxy-mode=ipvs", f"--manifests={manifests}", *flags]
    with lab.network.node.entered():
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    return done.stderr


def test_a_scheduler_that_the_kernel_does_not_have(lab: Lab, tmp_path: Path) -> None:
    lab.stop()
    said = refusal(lab, tmp_path, "--ipvs-scheduler=nonsense")
    assert "modprobe ip_vs_nonsense" in said


def test_a_kernel_without_ipvs(lab: Lab, tmp_path: Path) -> None:
    """The module cannot be loaded: not by the kernel, not by the daemon's own modprobe."""
    lab.stop()
    knob = Path("/proc/sys/kernel/modprobe")
    modprobe = Path(knob.read_text().strip())
    script = modprobe.read_text()
    loaded = [line.split()[0] for line in Path("/proc/modules").read_text().splitlines()]
    modules = [name for name in loaded if name.startswith(("ip_vs_", "xt_ipvs"))]
    subprocess.run(["rmmod", *modules, "ip_vs"], check=True)
    modprobe.write_text("#!/bin/sh\nexit 1\n")
    try:
        said = refusal(lab, tmp_path)
    finally:
        modprobe.write_text(script)
    assert "ip_vs" in said
    assert "modprobe ip_vs" in said
    lab.run(documents=deploy("cart", everywhere(21), "L1", PORTS))
    assert lab.dial("P", cluster_ip(21), 80).who == "L1"
