"""The lab itself, with rules written by hand: it sees what is right, and what is wrong."""

import contextlib
import fnmatch
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kubeproxy.base.inet import Family, Protocol, family_of
from kubeproxy.table.decide import Action, Packet
from lab import test_scenarios
from lab.compare import compare, report
from lab.dialer import Dialer
from lab.enter import VARIABLE, is_entered
from lab.handwritten import RULES, HandWritten
from lab.modes import VARIANTS, differs, only
from lab.network import Network
from lab.outcome import Fate, Probe
from lab.pairs import Pair, all_pairs, pair
from lab.plan import HOSTS, UPLINK
from lab.responders import Responders
from lab.stage import NFTABLES, Lab
from world import endpoint_slice, service

TCP, UDP = Protocol.TCP, Protocol.UDP
TESTS = Path(__file__).parents[1]

Load = Callable[[str], Lab]


@pytest.fixture(scope="module")
def network(_own_namespaces: None) -> Iterator[Network]:
    """A network of our own: the other tests leave a proxy running in theirs."""
    network = Network("hand-")
    yield network
    network.close()


@pytest.fixture(scope="module", autouse=True)
def responders(network: Network) -> Iterator[Responders]:
    opened = Responders(network)
    yield opened
    opened.close()


@pytest.fixture
def load(network: Network) -> Iterator[Load]:
    """A lab with a rule set of the test's own."""
    labs = []

    def loaded(rules: str) -> Lab:
        lab = Lab(network, HandWritten(network.node, rules), NFTABLES)
        labs.append(lab)
        lab.run(documents=[service(), endpoint_slice("L1 R1")])
        return lab

    yield loaded
    for lab in labs:
        lab.stop()


def ipv4_pairs(lab: Lab) -> list[Pair]:
    pairs = all_pairs(lab.expectation())
    return [each for each in pairs if family_of(each.packet.destination) is Family.IPV4]


def test_right_rules_agree(load: Load) -> None:
    lab = load(RULES)
    pairs = ipv4_pairs(lab)
    assert lab.compare(pairs) == len(pairs) > 30


@pytest.mark.parametrize(
    ("right", "wrong", "complaint"),
    [
        pytest.param(
            "ip saddr != 10.64.0.0/14 meta mark set 0x4000",
            "counter",
            "X 192.0.2.50 10.112.0.21:80/TCP L1:8080 masq | R1:8080 masq * saw 192.0.2.50:*",
            id="masquerading-forgotten",
        ),
        pytest.param(
            "ip saddr != 10.64.0.0/14 meta mark",
            "meta mark",
            "P 10.64.3.50 10.112.0.21:80/TCP L1:8080 | R1:8080 * saw 198.51.100.10:*",
            id="pods-masqueraded",
        ),
        pytest.param(
            "masquerade fully-random\n        ct status",
            "ip daddr != 10.65.7.21 masquerade fully-random\n        ct status",
            "H 198.51.100.10 10.112.0.21:80/TCP L1:8080 masq | R1:8080 masq "
            "never as expected in 80 tries: R1:8080",
            id="host-masqueraded-for-one-endpoint-only",
        ),
        pytest.param(
            "10.65.7.21 . 8080",
            "10.64.3.11 . 8080",
            "P * L1:8080 | R1:8080 never as expected in 80 tries: R1:8080",
            id="an-endpoint-never-chosen",
        ),
        pytest.param(
            "10.65.7.21 . 8080",
            "10.66.9.31 . 8080",
            "P * L1:8080 | R1:8080 R2 at 10.66.9.31:8080 saw *",
            id="another-endpoint",
        ),
        pytest.param(
            "10.65.7.21 . 8080",
            "10.65.7.21 . 8081",
            "P * L1:8080 | R1:8080 R1 at 10.65.7.21:8081 saw *",
            id="another-port",
        ),
        pytest.param(
            "ct status dnat ip saddr",
            "ct status snat ip saddr",
            "L1 10.64.3.11 10.112.0.21:80/TCP L1:8080 masq | R1:8080 silence",
            id="hairpin-forgotten",
        ),
        pytest.param(
            "reject with icmp port-unreachable",
            "meta l4proto tcp reject with tcp reset",
            "P 10.64.3.50 10.112.0.21:7/TCP reject reset",
            id="reset-instead-of-reject",
        ),
        pytest.param(
            "reject with icmp port-unreachable",
            "reject with icmp host-unreachable",
            "P 10.64.3.50 10.112.0.21:80/UDP reject failed ICMP type 3 code 1 by 198.51.100.10",
            id="another-refusal",
        ),
        pytest.param(
            "reject with icmp port-unreachable",
            "drop",
            "P 10.64.3.50 10.112.0.21 echo reject silence",
            id="drop-instead-of-reject",
        ),
        pytest.param(
            "ip daddr 10.112.0.0/16 drop",
            "counter",
            "X 192.0.2.50 10.112.0.77:80/TCP drop W at 10.112.0.77:80 saw 192.0.2.50:*",
            id="pass-instead-of-drop",
        ),
        pytest.param(
            "ip daddr 10.112.0.0/16 drop",
            "ip daddr 10.112.0.0/16 reject",
            "H 198.51.100.10 10.112.0.77 echo drop port unreachable by 198.51.100.10",
            id="reject-instead-of-drop",
        ),
    ],
)
def test_wrong_rules_are_found(load: Load, right: str, wrong: str, complaint: str) -> None:
    assert right in RULES
    lab = load(RULES.replace(right, wrong, 1))
    trials = compare(lab.dialer, lab.expectation(), ipv4_pairs(lab))
    lines = [" ".join(line.split()) for line in report(trials).splitlines()]
    assert fnmatch.filter(lines, complaint), report(trials)


PASS_ALL = RULES.replace("ip daddr 10.112.0.0/16 drop", "counter")
SLOWNESS = 0.4
"""Seconds: a packet that takes so long was taken for dropped when silence was the proof."""
FORBIDDEN = [
    pair(source, ("10.112.0.77", protocol, 80 * bool(protocol)))
    for source in ("P", "H", "X")
    for protocol in (TCP, UDP, None)
]
"""Packets that should be dropped, and get to W with these rules."""


@contextlib.contextmanager
def slow_wire(network: Network) -> Iterator[None]:
    """Inside, packets to W wait behind so many bytes that one fills the queue for that long."""
    device = ["dev", UPLINK, "root"]
    rate = "tbf rate 16kbit burst 400 limit 1000000"
    network.node.run(["tc", "qdisc", "add", *device, *rate.split()])
    try:
        with network.node.entered(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
            for _ in range(4):
                opened.sendto(bytes(350), (HOSTS["W"].ipv4, 9))
        yield
    finally:
        network.node.run(["tc", "qdisc", "del", *device])


@contextlib.contextmanager
def slow_responders(responders: Responders) -> Iterator[None]:
    """Inside, the process that answers stands still for a while."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(responders.paused())
        timer = threading.Timer(SLOWNESS, stack.close)
        timer.start()
        yield
        timer.join()


@pytest.mark.parametrize("slow", ["wire", "responders"])
def test_a_packet_that_is_forwarded_slowly_was_not_dropped(
    load: Load, network: Network, responders: Responders, slow: str
) -> None:
    lab = load(PASS_ALL)
    began = time.monotonic()
    with slow_wire(network) if slow == "wire" else slow_responders(responders):
        trials = compare(lab.dialer, lab.expectation(), FORBIDDEN)
    assert time.monotonic() - began > SLOWNESS
    assert {trial.verdict.action for trial in trials} == {Action.DROP}
    assert [trial.pair for trial in trials if trial.complaint] == FORBIDDEN


def test_a_datagram_of_a_flow_that_is_answered_slowly_was_not_dropped(
    load: Load, responders: Responders
) -> None:
    flow = load(PASS_ALL).flow("P", "10.112.0.77", 80)
    with slow_responders(responders):
        assert flow.ask().who == "W"


@pytest.mark.parametrize(
    "each",
    [
        pytest.param(pair("P", ("203.0.113.7", TCP, 80)), id="to-the-world"),
        pytest.param(pair("X", ("2001:db8:1b::7", UDP, 53)), id="datagram-to-the-world"),
        pytest.param(pair("Q", ("198.18.0.5", TCP, 999)), id="the-world-refuses"),
        pytest.param(pair("Q", ("198.18.0.5", UDP, 999)), id="the-world-refuses-a-datagram"),
        pytest.param(pair("H", ("10.112.0.21", None, 0)), id="the-world-echoes"),
        pytest.param(pair("Y", ("198.51.100.77", TCP, 31080)), id="a-process-of-the-host"),
        pytest.param(pair("L1", ("2001:db8:aa::77", UDP, 31081)), id="datagram-to-the-host"),
        pytest.param(pair("LO", ("127.0.0.1", TCP, 31080)), id="on-the-loopback"),
        pytest.param(pair("LO", ("::1", TCP, 31999)), id="the-host-refuses"),
    ],
)
def test_without_rules_everything_passes(network: Network, each: Pair) -> None:
    lab = Lab(network, HandWritten(network.node, ""), NFTABLES)
    lab.run("--proxy-mode=iptables")  # nothing is refused or dropped there but for services
    assert lab.compare([each]) == 1


def test_connections_outlive_the_rules(load: Load) -> None:
    lab = load(RULES)
    connections = [lab.connect(source, "10.112.0.21", 80) for source in "PHX" for _ in range(8)]
    assert {connection.answer.who for connection in connections} == {"L1", "R1"}
    lab.network.node.run(["nft", "flush chain ip hand services"])
    for connection in connections:
        connection.talk()
    lab.network.node.run(["conntrack", "-F"])
    with pytest.raises(ConnectionRefusedError):
        connections[0].talk()


def test_datagrams_of_one_flow_stay_together(load: Load) -> None:
    lab = load(RULES.replace("tcp dport", "udp dport"))
    flow = lab.flow("P", "10.112.0.21", 80)
    assert {flow.ask().who for _ in range(20)} in ({"L1"}, {"R1"})


def test_many_packets_fly_at_once(network: Network) -> None:
    source = HOSTS["P"]
    probes = [
        Probe("P", source.ipv4, HOSTS[name].ipv4, 8080, protocol)
        for name in ("L1", "L2", "L3", "R1", "R2")
        for protocol in (TCP, UDP)
        for _ in range(50)
    ]
    outcomes = Dialer(network).dial(probes)
    answered = [(outcome.fate, outcome.who) for outcome in outcomes]
    assert answered == [
        (Fate.ANSWERED, name) for name in ("L1", "L2", "L3", "R1", "R2") for _ in range(100)
    ]


def test_dialers_share_the_ports_of_a_network(network: Network) -> None:
    """What is left of an old connection, at an endpoint say, shall not meet a new one."""
    probe = Probe("P", HOSTS["P"].ipv4, HOSTS["L1"].ipv4, 8080)
    outcomes = [Dialer(network).dial([probe])[0] for _ in range(5)]
    assert len({outcome.sent_from.port for outcome in outcomes}) == 5


def test_a_source_that_is_not_there_is_a_failure(network: Network) -> None:
    probe = Probe("P", "192.0.2.1", "10.64.3.11", 8080)
    (outcome,) = Dialer(network).dial([probe])
    assert outcome.fate is Fate.FAILED
    assert "Cannot assign" in outcome.detail


def test_pairs_know_by_which_interface_they_enter() -> None:
    expected = Packet("10.65.7.99", "10.112.0.21", TCP, 80, "eth-q")
    assert pair("Q", ("10.112.0.21", TCP, 80)).packet == expected


@pytest.mark.parametrize("mode", ["nftables", "iptables", "ipvs"])
def test_a_new_scenario_runs_in_every_mode(mode: str, tmp_path: Path) -> None:
    """Nothing is to be written but the scenario itself."""
    (tmp_path / "test_new.py").write_text("def test_new(lab): pass")
    found = collected("-p", "lab.conftest", f"--mode={mode}", str(tmp_path / "test_new.py"))
    names = [variant.name for variant in VARIANTS if variant.mode.value == mode]
    assert found == [f"test_new[{name}]" for name in names]


def test_a_scenario_says_why_it_differs(tmp_path: Path) -> None:
    (tmp_path / "test_new.py").write_text(
        "from lab.modes import differs, only\n"
        "@differs('ipvs', reason='it cannot')\n"
        "def test_one(lab): pass\n"
        "@only('nftables', reason='a tool')\n"
        "def test_other(lab): pass\n"
    )
    done = running_pytest("-p", "lab.conftest", "--mode=ipvs", "-rs", str(tmp_path))
    assert "1 skipped, 1 deselected" in done.stdout
    assert "it cannot" in done.stdout
    with pytest.raises(AssertionError, match="say why"):
        differs("ipvs", reason="")
    with pytest.raises(AssertionError, match="not all of these are modes"):
        only("ipws", reason="a tool")


@pytest.mark.parametrize("mode", ["nftables", "iptables", "ipvs"])
def test_every_scenario_runs_in_every_mode(mode: str) -> None:
    """Or shows there why it does not."""
    scenarios = {name for name in vars(test_scenarios) if name.startswith("test_")}
    found = collected(f"--mode={mode}", test_scenarios.__file__)
    assert {name.partition("[")[0] for name in found} == scenarios


def collected(*arguments: str) -> list[str]:
    """The names of the tests that would run."""
    done = running_pytest("--collect-only", "-q", "-p", "no:randomly", *arguments)
    return [line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line]


def running_pytest(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        check=False,
    )


def entering(*command: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONPATH": str(TESTS), VARIABLE: ""}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_outside_of_namespaces_one_sentence_says_what_to_run() -> None:
    test = f"{__file__}::{test_pairs_know_by_which_interface_they_enter.__name__}"
    done = entering(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", test)
    assert "run `make lab`" in done.stdout
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert not is_entered({})


def test_a_machine_without_namespaces_gets_an_error_that_says_what_is_missing() -> None:
    script = f"echo 0 > /proc/sys/user/max_user_namespaces; {sys.executable} -m lab.enter -- true"
    done = entering("unshare", "--user", "--map-root-user", "sh", "-c", script)
    assert "which this machine does not grant: [Errno 28] unshare: No space left" in done.stderr
    assert done.returncode == 1
