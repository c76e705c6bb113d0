"""The kernel's edge of ipvs mode, in a kernel that has ip_vs: run by `python -m uml`."""

import errno
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.cleanup import clean_up
from kubeproxy.dataplane.ipvs.steps import listed_weights
from kubeproxy.linux import ipset
from kubeproxy.linux.ipset import IpsetFailed
from kubeproxy.linux.ipvs import Ipvs, IpvsMissing
from kubeproxy.linux.links import change_addresses, delete_dummy, ensure_dummy
from kubeproxy.linux.netlink.ipvs import (
    PERSISTENT,
    SOURCE_PORT,
    AddReal,
    AddServer,
    Command,
    DeleteReal,
    DeleteServer,
    RealKey,
    RealServer,
    ServerKey,
    SetReal,
    SetServer,
    VirtualServer,
)
from lab.namespaces import Namespace
from waiting import until

DEVICE = "kube-ipvs0"
WEB = ServerKey(Protocol.TCP, "10.96.50.1", 80)
DNS = ServerKey(Protocol.UDP, "fd00:10:96::5002", 53)
CALLS = ServerKey(Protocol.SCTP, "10.96.50.3", 5060)
POD, OTHER_POD = RealKey("10.128.1.10", 8080), RealKey("10.128.2.10", 8080)
POD6 = RealKey("fd00:128:1::11", 5353)
SCHEDULERS = ["rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "sed", "nq", "mh"]


@pytest.fixture
def node() -> Iterator[Namespace]:
    """A network of its own, and so virtual servers of its own."""
    namespace = Namespace("ipvs")
    namespace.run(["ip", "link", "set", "lo", "up"])
    with namespace.entered():
        yield namespace
    namespace.close()


@pytest.fixture
def ipvs(node: Namespace) -> Iterator[Ipvs]:
    assert node
    with Ipvs() as opened:
        opened.check("rr")
        yield opened


def listed(node: Namespace) -> list[str]:
    """What `ipvsadm` says that there is."""
    return [line.rstrip() for line in node.run(["ipvsadm", "-S", "-n"]).splitlines()]


def errors(ipvs: Ipvs, *commands: Command) -> list[tuple[Command, int]]:
    return [(command, error.errno) for command, error in ipvs.run(commands).items()]


def test_servers_are_made_changed_and_deleted(node: Namespace, ipvs: Ipvs) -> None:
    sticky = VirtualServer("mh", PERSISTENT | SOURCE_PORT, 600)
    commands: list[Command] = [
        *(AddServer(WEB, VirtualServer()), AddReal(WEB, POD), AddReal(WEB, OTHER_POD)),
        *(AddServer(DNS, sticky), AddReal(DNS, POD6)),
        *(AddServer(CALLS, VirtualServer()), AddReal(CALLS, OTHER_POD)),
    ]
    assert ipvs.run(commands) == {}
    assert listed(node) == [
        "-A -t 10.96.50.1:80 -s rr",
        "-a -t 10.96.50.1:80 -r 10.128.1.10:8080 -m -w 1",
        "-a -t 10.96.50.1:80 -r 10.128.2.10:8080 -m -w 1",
        "-A --sctp-service 10.96.50.3:5060 -s rr",
        "-a --sctp-service 10.96.50.3:5060 -r 10.128.2.10:8080 -m -w 1",
        "-A -u [fd00:10:96::5002]:53 -s mh -p 600 -b mh-port",
        "-a -u [fd00:10:96::5002]:53 -r [fd00:128:1::11]:5353 -m -w 1",
    ]
    commands = [SetReal(WEB, POD, 0), DeleteReal(WEB, OTHER_POD), DeleteServer(CALLS)]
    assert ipvs.run([*commands, SetServer(DNS, VirtualServer("wlc"))]) == {}
    assert listed(node) == [
        "-A -t 10.96.50.1:80 -s rr",
        "-a -t 10.96.50.1:80 -r 10.128.1.10:8080 -m -w 0",
        "-A -u [fd00:10:96::5002]:53 -s wlc",
        "-a -u [fd00:10:96::5002]:53 -r [fd00:128:1::11]:5353 -m -w 1",
    ]


def test_they_are_read_as_they_were_written(ipvs: Ipvs) -> None:
    sticky = VirtualServer("mh", PERSISTENT | SOURCE_PORT, 600)
    ipvs.run([AddServer(WEB, VirtualServer()), AddServer(DNS, sticky)])
    ipvs.run([AddReal(WEB, POD), AddReal(WEB, OTHER_POD, 0), AddReal(DNS, POD6)])
    assert ipvs.servers(Family.IPV4) == {WEB: VirtualServer()}
    assert ipvs.servers(Family.IPV6) == {DNS: sticky}
    assert (ipvs.find(WEB), ipvs.find(DNS), ipvs.find(CALLS)) == (VirtualServer(), sticky, None)
    reals = {POD: RealServer(1), OTHER_POD: RealServer(0)}
    assert (ipvs.reals(WEB), ipvs.reals(CALLS)) == (reals, {})
    assert listed_weights(ipvs.listing(), Family.IPV4) == {WEB: {POD: 1, OTHER_POD: 0}}
    assert listed_weights(ipvs.listing(), Family.IPV6) == {DNS: {POD6: 1}}


def test_refusals_name_their_command(ipvs: Ipvs) -> None:
    ipvs.run([AddServer(WEB, VirtualServer()), AddReal(WEB, POD)])
    refused: list[tuple[Command, int]] = [
        (AddServer(WEB, VirtualServer()), errno.EEXIST),
        (AddReal(WEB, POD), errno.EEXIST),
        (AddReal(DNS, POD6), errno.ESRCH),
        (DeleteServer(DNS), errno.ESRCH),
        (SetReal(WEB, OTHER_POD), errno.ENOENT),
        (AddServer(DNS, VirtualServer("nonsense")), errno.ENOENT),
    ]
    fine = AddReal(WEB, OTHER_POD)
    assert refused == errors(ipvs, *(command for command, _ in refused), fine)
    assert ipvs.reals(WEB).keys() == {POD, OTHER_POD}
    text = str(ipvs.run([DeleteReal(WEB, POD6)])[DeleteReal(WEB, POD6)])
    assert text.startswith("cannot delete the real server [fd00:128:1::11]:5353 of 10.96.50.1:80/")


def test_firewall_marks_are_left_alone(node: Namespace, ipvs: Ipvs) -> None:
    node.run(["ipvsadm", "-A", "-f", "7", "-s", "rr"])
    ipvs.run([AddServer(WEB, VirtualServer())])
    assert ipvs.servers(Family.IPV4).keys() == ipvs.connections().keys() == {WEB}
    assert listed_weights(ipvs.listing(), Family.IPV4) == {WEB: {}}


def test_more_commands_than_a_buffer_holds(ipvs: Ipvs) -> None:
    reals = [RealKey(f"10.128.{number >> 8}.{number & 255}", 80) for number in range(5000)]
    add = [AddReal(WEB, real) for real in reals]
    assert ipvs.run([AddServer(WEB, VirtualServer()), *add]) == {}
    listing = listed_weights(ipvs.listing(), Family.IPV4)
    assert listing[WEB].keys() == ipvs.reals(WEB).keys() == set(reals)
    refused = ipvs.run(add)
    assert list(refused) == add
    assert {error.errno for error in refused.values()} == {errno.EEXIST}


async def test_connections_are_counted(ipvs: Ipvs) -> None:
    ensure_dummy(DEVICE)
    change_addresses(DEVICE, [WEB.address], [])
    change_addresses("lo", ["10.201.1.2"], [])
    with socket.create_server(("10.201.1.2", 0)) as listener:
        real = RealKey(*listener.getsockname())
        ipvs.run([AddServer(WEB, VirtualServer()), AddReal(WEB, real)])
        with socket.create_connection((WEB.address, WEB.port), 5):
            assert ipvs.reals(WEB) == {real: RealServer(1, 1, 0)}
            # The kernel adds up what its processors have seen every two seconds.
            await until(lambda: ipvs.connections()[WEB] > 0)
    assert ipvs.connections()[WEB] == 1


def test_a_number_that_is_no_longer_ip_vs(ipvs: Ipvs, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after `modprobe -r ip_vs; modprobe ip_vs`: found again at the next try."""
    monkeypatch.setattr(ipvs, "_number", 0x3FF)
    add = AddServer(WEB, VirtualServer())
    assert errors(ipvs, add) == [(add, errno.ENOENT)]
    assert errors(ipvs, add) == []
    monkeypatch.setattr(ipvs, "_number", 0x3FF)
    with pytest.raises(KernelError, match="cannot list the virtual servers"):
        ipvs.servers(Family.IPV4)
    assert ipvs.servers(Family.IPV4).keys() == {WEB}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_the_kernel_has_the_scheduler(ipvs: Ipvs, scheduler: str) -> None:
    ipvs.check(scheduler)
    assert ipvs.servers(Family.IPV4) == {}


def test_a_scheduler_that_is_not_there(ipvs: Ipvs) -> None:
    with pytest.raises(IpvsMissing, match="modprobe ip_vs_nonsense"):
        ipvs.check("nonsense")
    assert ipvs.servers(Family.IPV4) == {}


def test_a_probe_that_was_left_is_no_obstacle(ipvs: Ipvs) -> None:
    probe = ServerKey(Protocol.TCP, "198.51.100.0", 20000)
    ipvs.run([AddServer(probe, VirtualServer("rr"))])
    ipvs.check("mh")
    assert ipvs.servers(Family.IPV4) == {}


def test_timeouts(node: Namespace, ipvs: Ipvs) -> None:
    ipvs.set_timeouts(901, 121, 0)
    said = node.run(["ipvsadm", "-L", "--timeout"])
    assert said == "Timeout (tcp tcpfin udp): 901 121 300\n"


def test_timeouts_that_are_too_long(ipvs: Ipvs) -> None:
    with pytest.raises(KernelError, match="cannot set the timeouts of ipvs to 4294967295, 0 and"):
        ipvs.set_timeouts(0xFFFFFFFF, 0, 0)


def test_without_the_capability(node: Namespace) -> None:
    script = (
        "from kubeproxy.linux.ipvs import Ipvs\nfrom kubeproxy.base.inet import Family\n"
        "Ipvs().servers(Family.IPV4)"
    )
    assert node
    done = subprocess.run(
        [
            "setpriv",
            "--bounding-set=-net_admin",
            "--inh-caps=-net_admin",
            sys.executable,
            "-c",
            script,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "needs CAP_NET_ADMIN" in done.stderr


def test_the_device_is_a_dummy_without_a_queue_and_down(node: Namespace) -> None:
    assert (ensure_dummy(DEVICE), ensure_dummy(DEVICE)) == (True, False)
    shown = node.run(["ip", "-details", "link", "show", DEVICE])
    assert f"{DEVICE}: <BROADCAST,NOARP> mtu 1500 qdisc noop state DOWN mode DEFAULT" in shown
    assert "dummy" in shown
    assert "qlen" not in shown
    assert (delete_dummy(DEVICE), delete_dummy(DEVICE)) == (True, False)


@pytest.mark.usefixtures("node")
def test_sets_as_text() -> None:
    ipset.check()
    create = "create KUBE-IPVS-IPS hash:ip family inet hashsize 1024 maxelem 65536"
    text = f"{create}\nadd KUBE-IPVS-IPS 10.96.50.1\ndel KUBE-IPVS-IPS 10.96.50.9\n"
    ipset.restore(text)
    ipset.restore(text)
    assert ipset.names() == ("KUBE-IPVS-IPS",)
    assert "add KUBE-IPVS-IPS 10.96.50.1\n" in ipset.save(["KUBE-IPVS-IPS"])
    with pytest.raises(IpsetFailed, match=r"line 2 is: add KUBE-IPVS-IPS nonsense") as raised:
        ipset.restore("add KUBE-IPVS-IPS 10.96.50.2\nadd KUBE-IPVS-IPS nonsense\n")
    assert raised.value.line == 2
    ipset.restore("add KUBE-IPVS-IPS 10.96.50.2\n")
    assert "add KUBE-IPVS-IPS 10.96.50.2\n" in ipset.save(["KUBE-IPVS-IPS"])


@pytest.mark.usefixtures("node")
def test_only_the_sets_that_are_asked_for_are_listed() -> None:
    for name in ("KUBE-A", "KUBE-B", "theirs"):
        ipset.restore(f"create {name} hash:ip\nadd {name} 10.96.50.1\n")
    listed_sets = ipset.save(["KUBE-A", "KUBE-MISSING", "KUBE-B"]).splitlines()
    assert [line.split()[:2] for line in listed_sets] == [
        ["create", "KUBE-A"],
        ["add", "KUBE-A"],
        ["create", "KUBE-B"],
        ["add", "KUBE-B"],
    ]
    assert ipset.save(["KUBE-MISSING"]) == ""


def test_cleanup_takes_what_is_ours(node: Namespace, ipvs: Ipvs) -> None:
    foreign = ServerKey(Protocol.TCP, "192.0.2.1", 443)
    ensure_dummy(DEVICE)
    change_addresses(DEVICE, [WEB.address, DNS.address], [])
    ipset.restore(
        "create KUBE-CLUSTER-IP hash:ip,port\nadd KUBE-CLUSTER-IP 10.96.50.3,sctp:5060\n"
    )
    ipvs.run([AddServer(key, VirtualServer()) for key in (WEB, DNS, CALLS, foreign)])
    removed = clean_up()
    assert set(removed) >= {"2 IPv4 virtual servers", "1 IPv6 virtual servers", f"device {DEVICE}"}
    assert listed(node) == ["-A -t 192.0.2.1:443 -s rr"]
    assert ipset.names() == ()
    assert clean_up() == ()
