"""`kubectl kubeproxy` with a real daemon in the place of pods, and a kubectl that asks it."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from fakes.kubectl import FakeCluster, install, node, pod
from lab.deploy import Address, Port, deploy, everywhere
from lab.modes import only
from lab.plan import HOSTS, cluster_ip
from lab.stage import Lab
from terminals import in_terminal
from world import NODE_NAME

nftables = only("nftables", reason="the commands that it runs have tests in every mode")
PLUGIN = (
    sys.executable,
    "-c",
    "import sys; from kubeproxy.app.cli import kubectl_plugin; sys.exit(kubectl_plugin())",
)
CLIENT = {
    "metadata": {"name": "reader", "namespace": "mall"},
    "spec": {"nodeName": NODE_NAME},
    "status": {"phase": "Running", "podIPs": [{"ip": HOSTS["P"].ipv4}, {"ip": HOSTS["P"].ipv6}]},
}
SERVER = {
    "metadata": {"name": "novel-1", "namespace": "mall"},
    "spec": {"nodeName": NODE_NAME},
    "status": {"phase": "Running", "podIPs": [{"ip": HOSTS["L1"].ipv4}]},
}


class Desk:
    """Where somebody has kubectl: the lab's node answers as two nodes."""

    def __init__(self, lab: Lab, directory: Path) -> None:
        inside = [sys.executable, str(_inside(directory)), str(lab.socket)]
        self.cluster = FakeCluster(
            pods=[pod("ours-1", NODE_NAME), pod("ours-2", "osprey"), CLIENT, SERVER],
            nodes=[node(NODE_NAME), node("osprey")],
            inside={"ours-1": inside, "ours-2": inside},
        )
        self.directory = directory
        self.node = lab.network.node

    @property
    def environment(self) -> Mapping[str, str]:
        return {**os.environ, **install(self.directory, self.cluster), "TERM": "dumb"}

    def said(self, *arguments: str) -> tuple[int, str, str]:
        with self.node.entered():
            done = subprocess.run(
                [*PLUGIN, *arguments],
                env=self.environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
        return done.returncode, done.stdout, done.stderr


def _inside(directory: Path) -> Path:
    """What runs `kube-proxy ARGUMENTS` as in a pod, whose socket is at the usual place."""
    program = directory / "inside.py"
    program.write_text(
        "import sys\nfrom kubeproxy.app.cli import main\n"
        "socket, name, *words = sys.argv[1:]\nassert name == 'kube-proxy'\n"
        "sys.exit(main([*words, f'--socket={socket}']))\n"
    )
    return program


@pytest.fixture
def desk(lab: Lab, tmp_path: Path) -> Desk:
    lab.stop()  # a daemon remembers what others did to its rules, in earlier tests
    lab.run()
    lab.put(
        *deploy("novel", everywhere(21), "L1 R1", (Port(node_port=31080),)),
        *deploy("poem", Address(22), ""),
    )
    return Desk(lab, tmp_path)


@nftables
def test_how_nodes_are(desk: Desk) -> None:
    code, out, err = desk.said("status")
    assert (code, err) == (0, "")
    head, _, titles, *rows = out.splitlines()
    assert head == "kube-proxy is well on 2 nodes"
    assert titles.split() == [
        *("NODE", "HEALTH", "PROXY", "VERSION", "LAST", "SYNC", "CONNTRACK", "SERVICES", "FAILED")
    ]
    assert [row.split()[:4] for row in rows[:2]] == [
        [NODE_NAME, "well,", "see", "below"],
        ["osprey", "well,", "see", "below"],
    ]
    assert rows[0].split()[-2:] == ["3", "0"]
    assert f"  on 2 nodes: {NODE_NAME}, osprey" in rows
    assert "    mall/poem:tcp-80: no endpoint can serve" in rows


@nftables
def test_services_of_one_node_and_of_all(desk: Desk) -> None:
    code, out, _ = desk.said("services", f"--node={NODE_NAME}", "--search=mall/")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines() if line.startswith("mall/")] == [
        "mall/novel",
        "mall/poem",
    ]
    code, out, _ = desk.said("services", "--all-nodes", "--search=mall/", "-o=json")
    found = json.loads(out)["services"]
    assert [each["service"] for each in found] == ["novel", "poem"]
    assert found[1]["problems"] == ["no endpoint can serve"]


@nftables
def test_the_names_of_pods_stand_where_their_addresses_were(desk: Desk) -> None:
    code, out, err = desk.said("services", "mall/novel", "--pod=mall/reader")
    assert (code, err) == (0, "")
    assert any(line.split()[:2] == ["mall/novel-1:8080", "this"] for line in out.splitlines())
    assert HOSTS["L1"].ipv4 not in out
    code, out, _ = desk.said("services", "mall/novel", "--pod=mall/reader", "--addresses")
    assert f"{HOSTS['L1'].ipv4}:8080" in out


@nftables
def test_explain_from_a_pod_is_asked_on_its_node(desk: Desk) -> None:
    code, out, err = desk.said("explain", "--from=mall/reader", "--to=mall/novel")
    assert (code, err) == (0, "")
    assert f"mall/reader (pod) -> {cluster_ip(21)}:80/TCP   on node {NODE_NAME}" in out
    assert "mall/novel-1:8080" in out
    code, out, _ = desk.said("explain", "--from=host", "--to=mall/novel", "--all-nodes")
    assert code == 0
    # Both answers are of the same daemon, so that they are the same.
    assert out.startswith(f"=== 2 nodes: {NODE_NAME}, osprey\n")


@nftables
def test_diff(desk: Desk) -> None:
    assert desk.said("diff", "--all-nodes") == (
        0,
        f"=== 2 nodes: {NODE_NAME}, osprey\nno difference\n",
        "",
    )


@nftables
def test_trace_shows_what_nodes_see(desk: Desk, lab: Lab) -> None:
    with desk.node.entered():
        running = subprocess.Popen(
            [*PLUGIN, "trace", "--all-nodes", "--to=mall/novel", "--count=1"],
            env=desk.environment,
            stdout=subprocess.PIPE,
            text=True,
        )
    while running.poll() is None:
        lab.dial("P", cluster_ip(21), 80)
    out, _ = running.communicate()
    assert running.returncode == 0
    titles, *rows = out.splitlines()
    assert titles.split()[:3] == ["TIME", "SEEN", "BY"]
    assert {row.split()[1] for row in rows} == {NODE_NAME, "osprey"}
    assert all(row.split()[4].startswith("mall/reader:") for row in rows)


@nftables
def test_top_of_all_and_of_one(desk: Desk) -> None:
    code, out, _ = desk.said("top", "--all-nodes")
    assert (code, out.split()[0]) == (0, "NAMESPACE/NAME")
    code, out, _ = desk.said("top", f"--node={NODE_NAME}", "--once")
    assert (code, out.split()[:3]) == (0, ["NAMESPACE/NAME", "PER", "SECOND"])


@nftables
def test_in_a_terminal_it_says_how_far_it_is(desk: Desk) -> None:
    environment = {**desk.environment, "TERM": "xterm"}
    with desk.node.entered(), in_terminal([*PLUGIN, "status"], environment=environment) as end:
        assert end.wait() == 0
        assert "\r\x1b[Kasked nodes: 0 of 2" in end.said
        assert "\x1b[32mkube-proxy is well\x1b[0m on 2 nodes" in end.said
