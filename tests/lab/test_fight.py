"""Others change the rules: the proxy says who, and says that two proxies fight."""

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from lab.deploy import Address, deploy, everywhere
from lab.documents import kestrel, service_cidr
from lab.modes import only
from lab.page import ask
from lab.programmer import DaemonProcess
from lab.stage import CLUSTER_CIDR_FLAG, Lab
from world import Mode

pytestmark = only("nftables", "iptables-nft", reason="the kernel says it of nftables rules alone")

SECONDS = 60.0
FOUGHT = {
    Mode.NFTABLES: "IPv4: two proxies fight over the rules of this node",
    Mode.IPTABLES: "IPv4: another program changes the rules again and again",
}


def status(lab: Lab) -> tuple[int, str]:
    """The exit code and the text of `kube-proxy status`, in one line."""
    command = [sys.executable, "-m", "kubeproxy", "status", f"--socket={lab.socket}"]
    with lab.network.node.entered():
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, " ".join(done.stdout.split())


def eventually(look: Callable[[], tuple[int, str]], text: str) -> tuple[int, str]:
    deadline = time.monotonic() + SECONDS
    while text not in (found := look())[1]:
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
    return found


def break_rules(lab: Lab) -> int:
    """Have a program delete a rule, or all of a chain; returns its number."""
    if lab.variant.mode is Mode.NFTABLES:
        command = ["nft", "flush chain ip kube-proxy frontends"]
    else:
        command = ["iptables-nft", "-t", "nat", "-F", "KUBE-SERVICES"]
    with lab.network.node.entered():
        process = subprocess.Popen(command)
    assert process.wait(60) == 0
    return process.pid


def test_who_changed_the_rules_is_in_log_status_and_metrics(lab: Lab) -> None:
    lab.stop()  # one that has seen no changes
    lab.run(documents=deploy("novel", everywhere(21), "L1"))
    pid = break_rules(lab)
    code, text = eventually(lambda: status(lab), "IPv4: another program changed the rules")
    assert code == 0
    [(program, number)] = re.findall(r"repairs: 1 in 0 s, last by (\S+) \(pid (\d+)\)", text)
    assert program in {"nft", "iptables-nft", "xtables-nft-mul"}
    if Path("/proc/self/ns/pid").stat().st_ino == 0xEFFFFFFC:  # else it has another number there
        assert int(number) == pid
    assert f'by="{program} (pid {number})"' in lab.daemon.log()
    _, metrics = ask(lab.network.node, "/metrics")
    line = f'kubeproxy_foreign_changes_total{{ip_family="IPv4",program="{program}"}} 1'
    assert line in metrics.splitlines()


def test_two_proxies_fight(lab: Lab, tmp_path: Path) -> None:
    lab.run(documents=deploy("novel", everywhere(21), "L1"))
    rival = DaemonProcess(lab.network.node, tmp_path)
    flags = [*lab.variant.flags, CLUSTER_CIDR_FLAG]
    flags += ["--metrics-bind-address=127.0.0.1:20249", "--healthz-bind-address=127.0.0.1:20256"]
    rival.write([kestrel(), service_cidr(), *deploy("poem", Address(22), "R1")])
    rival.launch(flags)
    try:
        code, text = eventually(lambda: status(lab), FOUGHT[lab.variant.mode])
    finally:
        rival.stop()
    assert code == 1
    assert "kube-proxy is NOT well" in text
    assert re.search(
        r"repairs: \d+ in \d+ s, last by (kube-proxy|ip\S*|xtables\S*) \(pid \d+\)", text
    )
    eventually(lambda: (0, lab.daemon.log()), "are changed by other programs again and again")
    lab.put(*deploy("novel", everywhere(21), "L1"))
    assert lab.dial("P", "10.112.0.21", 80).who == "L1"
