"""`kube-proxy diff` with a real daemon and a real kernel, in nftables mode."""

import contextlib
import itertools
import json
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fakes.daemon import FakeDaemon
from kubeproxy.base.inet import Family
from kubeproxy.linux.nfnetlink import Nfnetlink
from lab.deploy import Port, deploy, everywhere, mall
from lab.differ import EQUAL, remembered, run_diff, run_diff_in_terminal
from lab.listing import KEYWORD
from lab.modes import only
from lab.namespaces import Namespace
from lab.plan import cluster_ip
from lab.stage import Lab
from world import Document

GREEN, RED = "\x1b[32m", "\x1b[31m"
IP = cluster_ip(21)
NUMBER = "NUMBER"  # of pick-2: which one it is depends on what was chosen before
FRONTEND = f"element ip kube-proxy service-choices {{ {IP} . tcp . 80"
CART = "@@ mall/cart:tcp-80 @@"
WHOLE = "! table ip kube-proxy  # it is not the program that it should be"

ASLEEP = "table ip kube-proxy  # it is switched off (flags dormant): no service is served"
HOOK = "it should be: type filter hook input priority filter; policy accept;"


pytestmark = only("nftables", reason="the tools and pages are the same in every mode")


@pytest.fixture
def paused(lab: Lab, tmp_path: Path) -> Iterator[FakeDaemon]:
    """The mall is programmed, and what is changed now is put right only afterwards."""
    lab.run(documents=mall())
    with remembered(lab.daemon, tmp_path) as answering, lab.daemon.paused():
        yield answering
    wait_equal(lab, f"--socket={lab.socket}")


@pytest.fixture
def socket(lab: Lab) -> str:
    """Where the daemon is asked."""
    return f"--socket={lab.socket}"


def wait_equal(lab: Lab, socket: str) -> None:
    """Wait until the daemon has repaired everything."""
    deadline = time.monotonic() + 20
    while (ran := run_diff(lab.network.node, socket)) != EQUAL:
        assert time.monotonic() < deadline, ran


# --- no difference ----------------------------------------------------------------------------


def test_nothing_after_a_start(lab: Lab, socket: str) -> None:
    lab.stop()
    lab.run(documents=mall())
    assert run_diff(lab.network.node, socket) == EQUAL
    assert run_diff_in_terminal(lab.network.node, socket) == EQUAL


def test_nothing_when_the_last_service_that_was_healed_is_not_any_more(
    lab: Lab, socket: str
) -> None:
    """The rules for healing stay until a full sync, as unused chains do."""
    lab.stop()
    healed = [healing(each) for each in mall()]
    lab.run(documents=healed)
    assert run_diff(lab.network.node, socket) == EQUAL
    lab.put(*mall())
    assert "retry-refused" in lab.rules()
    assert run_diff(lab.network.node, socket) == EQUAL


def healing(document: Document) -> Document:
    """The document, and if it is a Service, with all of healing."""
    annotations = {"annotations": {"kubeproxy.io/healing": "all"}}
    metadata = document["metadata"]
    assert isinstance(metadata, dict)
    is_service = "spec" in document
    return {**document, "metadata": {**metadata, **annotations}} if is_service else document


def test_nothing_after_changes(lab: Lab, socket: str) -> None:
    """Chains of choices that are no longer made are left, and lists are in any order."""
    lab.run(documents=mall())
    for endpoints in ("L1 L2 R1 R2", "R2 L2", "R2 R1 L2", ""):
        lab.put(*mall(), *deploy("more", everywhere(40), endpoints, [Port(node_port=31100)]))
        assert run_diff(lab.network.node, socket) == EQUAL
    lab.put(*mall())
    assert run_diff(lab.network.node, socket) == EQUAL


def test_nothing_with_traffic(lab: Lab, socket: str) -> None:
    """Connections count, and clients are remembered."""
    lab.run(documents=mall())
    lab.dial_crowd(cluster_ip(33), 80)
    assert run_diff(lab.network.node, socket) == EQUAL


# --- what others did --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param(
            f"delete element ip kube-proxy service-choices {{ {IP} . tcp . 80 }}",
            [CART, f"+ {FRONTEND} : {NUMBER} }}"],
            id="frontend-deleted",
        ),
        pytest.param(
            f"delete element ip kube-proxy service-choices {{ {IP} . tcp . 80 }};"
            f"add element ip kube-proxy service-choices {{ {IP} . tcp . 80 : 0:fff }}",
            [CART, f"- {FRONTEND} : 0:fff }}", f"+ {FRONTEND} : {NUMBER} }}"],
            id="frontend-leads-elsewhere",
        ),
        pytest.param(
            f"add element ip kube-proxy service-choices {{ {IP} . tcp . 81 : 0:1 }}",
            [
                "@@ of no service port @@",
                f"- element ip kube-proxy service-choices {{ {IP} . tcp . 81 : 0:1 }}",
            ],
            id="frontend-added",
        ),
        pytest.param(
            "flush set ip kube-proxy nodeport-addresses",
            [
                "@@ of no service port @@",
                "+ element ip kube-proxy nodeport-addresses { 198.51.100.10 }",
            ],
            id="addresses-of-the-node-flushed",
        ),
        pytest.param(
            "flush set ip kube-proxy service-cidrs",
            [
                "@@ of no service port @@",
                "+ element ip kube-proxy service-cidrs { 10.112.0.0/16 }",
            ],
            id="service-ranges-flushed",
        ),
        pytest.param(
            "add chain ip kube-proxy guest",
            ["@@ of no service port @@", "- chain ip kube-proxy guest"],
            id="chain-added",
        ),
        pytest.param(
            "insert rule ip kube-proxy refuse-cluster-ips ip saddr 192.0.2.7 drop",
            [
                "@@ of no service port @@",
                WHOLE,
                "- rule ip kube-proxy refuse-cluster-ips ip saddr 192.0.2.7 drop # handle N",
            ],
            id="rule-inserted",
        ),
        pytest.param(
            "flush chain ip kube-proxy refuse-cluster-ips",
            [
                "@@ of no service port @@",
                WHOLE,
                "+ rule ip kube-proxy refuse-cluster-ips ip daddr @cluster-ips-in-use goto refuse",
                "+ rule ip kube-proxy refuse-cluster-ips ip daddr @service-cidrs drop",
            ],
            id="chain-flushed",
        ),
        pytest.param(
            "chain ip kube-proxy filter/input { policy drop; }",
            [
                "@@ of no service port @@",
                WHOLE,
                f"! chain ip kube-proxy filter/input  # {HOOK}",
            ],
            id="policy-changed",
        ),
        pytest.param(
            "add set ip kube-proxy guests { type mark; }",
            ["@@ of no service port @@", WHOLE, "- set ip kube-proxy guests"],
            id="set-added",
        ),
        pytest.param(
            "table ip kube-proxy { flags dormant; }",
            [
                "@@ of no service port @@",
                f"! {ASLEEP}",
            ],
            id="table-put-to-sleep",
        ),
        pytest.param(
            "delete table ip kube-proxy",
            [
                "@@ of no service port @@",
                "+ table ip kube-proxy  # there is none: no service is served",
            ],
            id="table-deleted",
        ),
    ],
)
def test_changes_of_others_are_shown(
    lab: Lab, paused: FakeDaemon, script: str, expected: list[str]
) -> None:
    node = lab.network.node
    number = choice_of_cart(node)
    node.run(["nft", script])
    before = generation(node)
    ran = run_diff(node, f"--socket={paused.socket}")
    assert generation(node) == before, "it only looks"
    assert ran.code == 1, ran
    assert ran.lines[:2] == ["--- kernel (IPv4, nftables)", "+++ desired"]
    shown = [_without_handle(line) for line in ran.lines[2:]]
    assert shown == [line.replace(NUMBER, number) for line in expected]


def choice_of_cart(node: Namespace) -> str:
    """The number that the kernel has for the way in which the cart chooses."""
    element = f"{{ {IP} . tcp . 80 }}"
    listed = node.run(["nft", f"get element ip kube-proxy service-choices {element}"])
    found = re.search(r"tcp \. 80 : (0:[0-9a-f]+) ", listed)
    assert found is not None, listed
    return found[1]


def generation(node: Namespace) -> int:
    """How many transactions there were."""
    with node.entered(), Nfnetlink() as kernel:
        return kernel.generation()


def _without_handle(line: str) -> str:
    text, mark, _ = line.partition(" # handle ")
    return f"{text}{mark}N" if mark else text


@pytest.mark.parametrize("family", Family, ids=lambda family: family.value)
def test_one_family_has_nothing_to_do_with_the_other(
    paused: FakeDaemon, lab: Lab, family: Family
) -> None:
    node = lab.network.node
    node.run(["nft", f"delete table {KEYWORD[family]} kube-proxy"])
    for each in Family:
        ran = run_diff(node, f"--socket={paused.socket}", f"--family={each.value}")
        assert ran.code == (1 if each is family else 0), ran
    assert f"kernel ({family.value}" in run_diff(node, f"--socket={paused.socket}").out


def test_in_a_terminal_with_colours_and_without(paused: FakeDaemon, lab: Lab) -> None:
    node = lab.network.node
    node.run(["nft", f"add element ip kube-proxy service-choices {{ {IP} . tcp . 81 : 0:1 }}"])
    node.run(["nft", f"delete element ip kube-proxy service-choices {{ {IP} . tcp . 80 }}"])
    socket = f"--socket={paused.socket}"
    piped = run_diff(node, socket)
    shown = run_diff_in_terminal(node, socket)
    plain = run_diff_in_terminal(node, socket, settings={"NO_COLOR": "1"})
    assert (piped.code, shown.code, plain.code) == (1, 1, 1)
    assert f"{GREEN}+ {FRONTEND}" in shown.out
    assert f"{RED}- element" in shown.out
    assert "\x1b" not in plain.out + piped.out
    assert plain.lines == piped.lines  # a terminal is narrow, and nothing is cut off


def test_for_programs(paused: FakeDaemon, lab: Lab) -> None:
    node = lab.network.node
    number = choice_of_cart(node)
    node.run(["nft", f"delete element ip kube-proxy service-choices {{ {IP} . tcp . 80 }}"])
    ran = run_diff(node, f"--socket={paused.socket}", "-o", "json")
    ipv4, ipv6 = json.loads(ran.out)["families"]
    assert ran.code == 1
    assert (ipv4["equal"], ipv6["equal"]) == (False, True)
    assert ipv4["differences"] == [
        {
            "change": "add",
            "object": f"{FRONTEND} : {number} }}",
            "servicePort": "mall/cart:tcp-80",
            "reason": "",
        }
    ]


def test_no_more_than_one_wants_to_read(paused: FakeDaemon, lab: Lab) -> None:
    node = lab.network.node
    node.run(["nft", "flush map ip kube-proxy service-endpoints"])
    ran = run_diff(node, f"--socket={paused.socket}", "--limit=3")
    assert len([line for line in ran.lines if line[:2] == "+ "]) == 3
    assert ran.lines[-1].endswith("more: --limit 0 shows all")


# --- the real daemon --------------------------------------------------------------------------


@contextlib.contextmanager
def held(node: Namespace) -> Iterator[None]:
    """Another process owns a table in the place of ours, and no other may change it."""
    with node.entered():
        nft = subprocess.Popen(["nft", "-i"], stdin=subprocess.PIPE, text=True)
    assert nft.stdin is not None
    nft.stdin.write("delete table ip kube-proxy; add table ip kube-proxy { flags owner; }\n")
    nft.stdin.flush()
    try:
        yield
    finally:
        nft.stdin.close()
        nft.wait(10)


def test_a_daemon_that_cannot_repair(lab: Lab, socket: str) -> None:
    """The real one answers, while the kernel refuses all that it tries."""
    lab.run(documents=mall())
    node = lab.network.node
    deadline = time.monotonic() + 20
    with held(node):
        while (ran := run_diff(node, socket)) == EQUAL:  # it takes a moment to be there
            assert time.monotonic() < deadline
        assert ran.code == 1, ran
        assert WHOLE in ran.lines
        assert "+ map ip kube-proxy service-choices" in ran.lines
        assert "+ chain ip kube-proxy frontends" in ran.lines
    wait_equal(lab, socket)


def test_a_cluster_that_never_rests_raises_no_alarm(lab: Lab, socket: str) -> None:
    lab.run(documents=mall())
    turns = itertools.cycle(("L1", "L1 R1", "L1 R1 R2", "R2"))
    answers: list[object] = []
    rests = threading.Event()

    def ask() -> None:
        while not rests.is_set():
            answers.append(run_diff(lab.network.node, socket))

    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask)
        while len(answers) < 5 and not asking.done():
            lab.put(*mall(), *deploy("restless", everywhere(40), next(turns)))
        rests.set()
        asking.result()
    assert answers == [EQUAL] * len(answers)


def test_no_daemon(lab: Lab, socket: str) -> None:
    lab.stop()
    ran = run_diff(lab.network.node, socket)
    assert (ran.code, ran.out) == (3, "")
    assert f"{lab.socket}: there is no such socket" in ran.err
    assert "Is it running on this node?" in ran.err
    assert run_diff_in_terminal(lab.network.node, socket).code == 3


def test_without_the_right_to_read_the_kernel(lab: Lab, socket: str) -> None:
    lab.run(documents=mall())
    confined = ("setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin")
    ran = run_diff(lab.network.node, socket, through=confined)
    assert (ran.code, ran.out) == (2, "")
    assert "CAP_NET_ADMIN" in ran.err
    assert ran.err.count("\n") == 1
