"""The commands that ask a running daemon: in a terminal and piped, with real connections."""

import json
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from kubeproxy.base.inet import Family
from kubeproxy.serve.status import wire
from kubeproxy.tools.client import SOCKET
from lab.alone import be_kestrel
from lab.deploy import ETP_LOCAL, Address, Port, deploy, everywhere
from lab.documents import complete, kestrel, service_cidr
from lab.modes import only
from lab.namespaces import Namespace
from lab.plan import HOSTS, cluster_ip, vip
from lab.programmer import DaemonProcess
from lab.stage import CLUSTER_CIDR_FLAG, Lab
from terminals import Terminal, in_terminal, plain
from world import NODE_NAME, Document

nftables = only("nftables", reason="the tools are the same in every mode")

KUBE_PROXY = (sys.executable, "-m", "kubeproxy")
PORTS = (Port(node_port=31080),)
LOCAL = {**ETP_LOCAL, "healthCheckNodePort": 32082}
HEADLESS = "a Service that is headless, or of type ExternalName, has none"
PATIENCE = 60.0


class Shell:
    """Runs commands where a daemon is: on its node, knowing its socket."""

    def __init__(self, node: Namespace, socket: Path) -> None:
        self.node = node
        self.socket = socket

    def piped(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """What came of a command whose output goes to a program."""
        return self.anywhere(*arguments, f"--socket={self.socket}")

    def anywhere(
        self, *arguments: str, through: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        """The same, of a command without a flag that says where the daemon is."""
        with self.node.entered():
            return subprocess.run(
                [*through, *KUBE_PROXY, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=PATIENCE,
            )

    def begun(self, *arguments: str) -> subprocess.Popen[str]:
        """A command that runs, whose output goes to a program."""
        command = [*KUBE_PROXY, *arguments, f"--socket={self.socket}"]
        with self.node.entered():
            return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def said(self, *arguments: str) -> str:
        """What a command says that goes well."""
        done = self.piped(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextmanager
    def terminal(
        self, *arguments: str, columns: int = 80, environment: Mapping[str, str] | None = None
    ) -> Iterator[Terminal]:
        """A terminal in which a command runs."""
        command = [*KUBE_PROXY, *arguments, f"--socket={self.socket}"]
        with (
            self.node.entered(),
            in_terminal(command, columns=columns, environment=environment) as terminal,
        ):
            yield terminal


@pytest.fixture
def shell(lab: Lab) -> Shell:
    return Shell(lab.network.node, lab.socket)


def begin(lab: Lab, *documents: Document, flags: tuple[str, ...] = ()) -> None:
    """These Services alone, which no client has dialled yet."""
    lab.run(*flags)
    lab.put()
    lab.put(*documents)


def call(lab: Lab, times: int) -> None:
    for _ in range(times):
        assert lab.dial("P", cluster_ip(21), 80).who


def call_counted(lab: Lab, shell: Shell, name: str, times: int) -> None:
    """Call, and wait for a reading that knows of it: each serves for a second."""
    call(lab, times)
    deadline = time.monotonic() + PATIENCE
    while True:
        found = json.loads(shell.said("services", "--no-rates", f"--search={name}", "-o=json"))
        if [each["connections"] >= times for each in found["services"]] == [True]:
            return
        assert time.monotonic() < deadline, found


def while_dialling(lab: Lab, shell: Shell, *arguments: str) -> list[str]:
    """The lines that a command prints while connections are made all the time."""
    with shell.begun(*arguments) as process:
        while process.poll() is None:
            call(lab, 1)
        out, _ = process.communicate()
    assert process.returncode == 0
    return out.splitlines()


def number(text: str) -> float:
    return float(text.replace(",", ""))


# --- status -----------------------------------------------------------------------------------


@nftables
def test_status_piped(lab: Lab, shell: Shell) -> None:
    lab.stop()  # a daemon remembers what others did to its rules, in earlier tests
    begin(lab, *deploy("novel", everywhere(21), "L1 R1", PORTS))
    lines = shell.said("status").splitlines()
    assert lines[0].startswith(f"kube-proxy is well on node {NODE_NAME}: nftables mode, up ")
    assert any(line.startswith("source   manifests in ") for line in lines)
    # With the lab's pulse: two services with a port each, one of them with five frontends.
    rows = [line.split() for line in lines if line.startswith("IPv")]
    assert [row[:6] for row in rows[:2]] == [
        [family.value, "healthy", "2", "2", "5", "2"] for family in Family
    ]
    assert "1 added" in next(line for line in lines if line.startswith("IPv4    last "))
    found = msgspec.json.decode(shell.said("status", "-o", "json"), type=wire.DaemonStatus)
    assert (found.node, found.mode, found.families[0].services) == (NODE_NAME, "nftables", 2)


@nftables
def test_status_in_a_terminal(lab: Lab, shell: Shell) -> None:
    lab.stop()
    begin(lab)
    with shell.terminal("status") as terminal:
        assert terminal.wait() == 0
        assert terminal.said.startswith("\x1b[32mkube-proxy is well\x1b[0m on node kestrel")
        assert max(len(line) for line in plain(terminal.said).splitlines()) <= 80
    with shell.terminal("status", environment={"NO_COLOR": "1"}) as terminal:
        assert terminal.wait() == 0
        assert "\x1b" not in terminal.said


@nftables
def test_a_conflict_is_shown_first(lab: Lab, shell: Shell) -> None:
    begin(lab, *deploy("first", everywhere(21), "L1"), *deploy("second", Address(21), "R1"))
    lines = shell.said("status").splitlines()
    assert lines[1:3] == [
        "  IPv4: 1 address is claimed twice",
        f"    {cluster_ip(21)}:80/TCP: served by mall/first:tcp-80, and not by mall/second:tcp-80",
    ]


@nftables
def test_without_flags_the_metrics_address_is_found(lab: Lab, shell: Shell) -> None:
    assert not Path(SOCKET).exists()
    begin(lab)
    done = shell.anywhere("status")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"on node {NODE_NAME}" in done.stdout


# --- services ---------------------------------------------------------------------------------


@nftables
def test_a_service_that_was_just_put_is_listed(lab: Lab, shell: Shell) -> None:
    begin(lab, *deploy("fresh", everywhere(21), "L1 R1", PORTS))
    head, *rows = shell.said("services", "--no-rates").splitlines()
    assert head.split()[:4] == ["NAMESPACE/NAME", "ADDRESSES", "PORTS", "ENDPOINTS"]
    (fresh,) = (row.split() for row in rows if row.startswith("mall/fresh"))
    assert fresh[1].startswith(f"{cluster_ip(21)},{cluster_ip(21, Family.IPV6)},")
    assert fresh[1].endswith(",*:31080")
    assert fresh[2:5] == ["tcp-80:80/TCP", "4/4", "0"]
    lab.put()
    assert "mall/fresh" not in shell.said("services", "--no-rates")


@nftables
def test_connections_and_their_rate(lab: Lab, shell: Shell) -> None:
    begin(lab, *deploy("busy", everywhere(21), "L1 R1"), *deploy("idle", Address(22), "L1"))
    call_counted(lab, shell, "mall/busy", 1)
    _, first, *_ = while_dialling(lab, shell, "services", "--sort=rate")
    name, *_, connections, rate = first.split()
    assert (name, number(connections) > 0, number(rate) > 0) == ("mall/busy", True, True)


@nftables
def test_one_service_in_detail(lab: Lab, shell: Shell) -> None:
    begin(lab, *deploy("saga", everywhere(21), "L1 L2:unready R1", PORTS, LOCAL))
    call_counted(lab, shell, "mall/saga", 3)
    for name in ("mall/saga", "saga"):
        lines = shell.said("services", name).splitlines()
        assert lines[0] == f"mall/saga   on node {NODE_NAME}, nftables mode"
        rows = [line.split() for line in lines]
        assert ["cluster-ip", f"{cluster_ip(21)}:80", "3", "0"] in rows
        assert ["node-port", "*:31080", "0", "0"] in rows
        assert [f"{HOSTS['L1'].ipv4}:8080", *["this", "node", "ready", "Cluster", "Local"]] in rows
        where = next(n for n, line in enumerate(lines) if f"{HOSTS['R1'].ipv4}:8080" in line)
        assert lines[where].split() == [f"{HOSTS['R1'].ipv4}:8080", "heron", "ready", "Cluster"]
        assert lines[where + 1] == (
            "    not for Local: it is on node heron, and the traffic policy is Local"
        )
        assert lines.count("    not used: it is not ready") == 2  # one in each family
    with shell.terminal("services", "saga", columns=72) as terminal:
        assert terminal.wait() == 0
        assert max(len(line) for line in plain(terminal.said).splitlines()) <= 72


@nftables
def test_a_service_that_is_not_there(lab: Lab, shell: Shell) -> None:
    begin(lab, *deploy("novel", everywhere(21), "L1"))
    done = shell.piped("services", "mall/novl")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        "Error: no service ports for mall/novl",
        "namespace mall has: novel",
        f"kube-proxy services lists all; {HEADLESS}",
    ]


# --- top --------------------------------------------------------------------------------------


@nftables
def test_top_in_a_terminal(lab: Lab, shell: Shell) -> None:
    begin(lab, *deploy("busy", everywhere(21), "L1 R1"), *deploy("calm", Address(22), "L1"))
    with shell.terminal("top", "--interval=1") as terminal:
        terminal.until(lambda: terminal.shows("mall/busy"))

        def is_first() -> bool:
            call(lab, 1)
            busiest = terminal.frame()[3]
            return busiest.startswith("mall/busy") and "█" in busiest

        terminal.until(is_first)
        assert f"{NODE_NAME}, nftables mode" in terminal.frame()[0]
        terminal.type("/calm\r")
        terminal.until(lambda: terminal.frame()[3].startswith("mall/calm"))
        assert not terminal.shows("mall/busy")
        terminal.type("q")
        assert terminal.wait() == 0
        assert terminal.said.endswith("\x1b[?7h\x1b[?25h\x1b[?1049l")
        assert terminal.modes == termios.tcgetattr(terminal.theirs)


@nftables
def test_top_outlives_the_daemon(lab: Lab, shell: Shell) -> None:
    begin(lab, *deploy("busy", everywhere(21), "L1 R1"))
    with shell.terminal("top", "--interval=1") as terminal:
        terminal.until(lambda: terminal.shows("mall/busy"))
        lab.restart()
        terminal.until(lambda: terminal.shows("syncs: 1 IPv4, 1 IPv6"))
        assert terminal.shows("mall/busy")


@nftables
def test_top_piped(lab: Lab, shell: Shell) -> None:
    begin(lab, *deploy("busy", everywhere(21), "L1 R1"))
    call_counted(lab, shell, "mall/busy", 1)
    _, first, *_ = while_dialling(lab, shell, "top", "--interval=1")
    name, rate, connections, endpoints = first.split()
    assert (name, endpoints) == ("mall/busy", "4/4")
    assert (number(connections) > 0, number(rate) > 0) == (True, True)
    beats = while_dialling(lab, shell, "top", "--interval=1", "-o=json", "--count=2")
    for beat in map(json.loads, beats):
        assert beat["services"][0]["service"] == "busy"
        assert beat["perSecond"] == beat["services"][0]["perSecond"] > 0
    assert len(beats) == 2


# --- explain ----------------------------------------------------------------------------------


@nftables
def test_explain_live_says_what_explain_says(lab: Lab, shell: Shell, tmp_path: Path) -> None:
    begin(
        lab,
        *deploy("novel", everywhere(21), "L1 L2:unready R1", PORTS, LOCAL),
        *deploy("poem", Address(22), ""),
    )
    manifests = tmp_path / "cluster.yaml"
    manifests.write_text("\n---\n".join(json.dumps(complete(each)) for each in lab.documents))
    known = (f"--manifests={tmp_path}", f"--node={NODE_NAME}", CLUSTER_CIDR_FLAG)
    note = f"note: answered by the running kube-proxy (nftables mode, node {NODE_NAME})\n"
    for source, output in ((HOSTS["P"].ipv4, "text"), ("host", "text"), ("outside", "json")):
        question = [
            *("explain", f"--output={output}", f"--from={source}", "--to=poem"),
            *(f"--to={vip(21)}:80", f"--to={HOSTS['H'].ipv4}:31080"),
        ]
        live = shell.piped(*question)
        expected = shell.anywhere(*question, *known)
        assert (live.stdout, live.returncode) == (expected.stdout, 0)
        assert (live.stderr, expected.stderr) == (note, "")
    # No flag says where the daemon is, nor that it should be asked.
    found = shell.anywhere("explain", f"--from={HOSTS['P'].ipv4}", "--to=novel")
    assert (found.returncode, found.stderr) == (0, note)
    assert f"{HOSTS['L1'].ipv4}:8080" in found.stdout


@nftables
def test_explain_live_knows_no_pods(lab: Lab, shell: Shell) -> None:
    begin(lab, *deploy("novel", everywhere(21), "L1"))
    done = shell.piped("explain", "--from=mall/reader", "--to=novel")
    assert (done.returncode, done.stdout) == (1, "")
    assert "--from mall/reader: it is no address, and the running kube-proxy" in done.stderr
    done = shell.piped("explain", "--to=novl")
    assert done.stderr.startswith("Error: --to novl: no such Service is proxied")


# --- no daemon, and users without rights ------------------------------------------------------


@pytest.fixture
def node(_own_namespaces: None) -> Iterator[Namespace]:
    """A node on which nothing runs."""
    node = Namespace("bare")
    be_kestrel(node)
    yield node
    node.close()


@pytest.mark.parametrize(
    "command", ["status", "services", "services x", "top", "explain --live --to=x"]
)
def test_no_daemon(node: Namespace, tmp_path: Path, command: str) -> None:
    shell = Shell(node, tmp_path / "none")
    done = shell.anywhere(*command.split())
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.splitlines()[:3] == [
        "Error: no kube-proxy answers here:",
        f"  {SOCKET}: there is no such socket",
        "  http://127.0.0.1:10249: Connection refused",
    ]
    with shell.terminal(*command.split()) as terminal:
        assert terminal.wait() == 3
        assert "\x1b" not in terminal.said
        assert f"{tmp_path}/none: there is no such socket" in terminal.said


@nftables
def test_users_without_access_to_the_socket(lab: Lab, shell: Shell) -> None:
    """Root without the right to use every file stands for another user: the lab has no other."""
    begin(lab)
    mode = lab.socket.stat().st_mode
    lab.socket.chmod(0)
    confined = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--")
    try:
        done = shell.anywhere("status", f"--socket={lab.socket}", through=confined)
    finally:
        lab.socket.chmod(mode)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[:2] == [
        "Error: permission denied:",
        f"  {lab.socket}: only root and the user of the daemon have access; try sudo",
    ]


# --- a mode that counts nothing ---------------------------------------------------------------


@pytest.fixture
def iptables(node: Namespace, tmp_path: Path) -> Iterator[Shell]:
    """A daemon in iptables mode."""
    daemon = DaemonProcess(node, tmp_path)
    documents = deploy("novel", everywhere(21), "L1 R1", PORTS)
    flags = ["--proxy-mode=iptables", CLUSTER_CIDR_FLAG, "--conntrack-max-per-core=0"]
    flags += ["--conntrack-tcp-timeout-established=0s", "--conntrack-tcp-timeout-close-wait=0s"]
    try:
        daemon.start(flags, (kestrel(), service_cidr(), *documents))
        yield Shell(node, daemon.socket)
    finally:
        daemon.stop()


def test_iptables_mode_counts_nothing(iptables: Shell) -> None:
    note = "note: connections are not counted in iptables mode\n"
    for arguments in (["services"], ["services", "novel"]):
        done = iptables.piped(*arguments)
        assert (done.returncode, done.stderr) == (0, note)
        assert "CONNECTIONS" not in done.stdout
        assert cluster_ip(21) in done.stdout
    done = iptables.piped("top")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: connections are not counted in iptables mode: ")
    assert "iptables mode" in iptables.said("status").splitlines()[0]
