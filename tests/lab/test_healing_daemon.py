"""Healing as a daemon sets it up, and as it goes on without one."""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kubeproxy.base.inet import Family
from lab.attempts import POD, WAYS, Attempt, Way, attempt
from lab.deploy import Address, deploy, everywhere
from lab.differ import EQUAL, remembered, run_diff
from lab.documents import in_family
from lab.failures import IS_SILENT, REFUSES, failing
from lab.healed import KERNEL, NODE_PORT, PORTS, annotated, healed, of_pods, talks
from lab.listing import KEYWORD
from lab.modes import only
from lab.plan import cluster_ip, vip
from lab.stage import Lab
from world import Document

SECONDS = 60.0
TWO = "L1 R1"
GONE = "+ rule ip kube-proxy gone"
FRONTEND = "ct original ip daddr . ct original proto-dst"
REFUSED_AT_ONCE = Attempt("ECONNREFUSED")
REFUSED_TWICE = Attempt("ECONNREFUSED", 1)
FAMILIES = pytest.mark.parametrize("family", Family)

pytestmark = only("nftables", reason="other modes do not heal")


def web(endpoints: str = TWO) -> list[Document]:
    """A healed Service whose endpoints are pods."""
    return healed(of_pods(deploy("web", everywhere(21), endpoints, PORTS)))


def dial(lab: Lab, family: Family, *ways: Way, number: int = 21) -> list[Attempt]:
    return attempt(lab.network, (way.probe(number, family, NODE_PORT) for way in ways))


def check_heals(lab: Lab, family: Family, verdict: str) -> None:
    """Of two endpoints one fails. They come in turn: of two clients one meets it first."""
    with failing(lab.network, verdict, "R1") as failures:
        found = [each for _ in "12" for each in dial(lab, family, POD)]
    assert {each.who for each in found} == {"L1"}
    assert failures["R1"].count == sum(each.retries for each in found) >= 1


# --- who is healed ----------------------------------------------------------------------------


@FAMILIES
def test_all_services_but_one(lab: Lab, family: Family) -> None:
    """The annotation wins over the flag."""
    healed_by_flag = deploy("web", everywhere(21), TWO, PORTS)
    not_healed = annotated(deploy("other", Address(22), TWO), healing="none")
    lab.run(f"--nftables-healing={KERNEL}", documents=[*healed_by_flag, *not_healed])
    with failing(lab.network, REFUSES, *TWO.split()):
        assert dial(lab, family, *WAYS) == [REFUSED_TWICE] * 4
        assert dial(lab, family, POD, number=22) == [REFUSED_AT_ONCE]


@FAMILIES
def test_one_service_only(lab: Lab, family: Family) -> None:
    """By its annotation, which comes and goes."""
    other = deploy("other", Address(22), TWO)
    lab.run(documents=[*web(), *other])
    with failing(lab.network, REFUSES, *TWO.split()):
        assert dial(lab, family, *WAYS) == [REFUSED_TWICE] * 4
        assert dial(lab, family, POD, number=22) == [REFUSED_AT_ONCE]
        lab.put(*deploy("web", everywhere(21), TWO, PORTS), *other)
        assert dial(lab, family, *WAYS) == [REFUSED_AT_ONCE] * 4


@FAMILIES
def test_an_annotation_that_makes_no_sense_is_named_and_ignored(lab: Lab, family: Family) -> None:
    lab.run(documents=web())
    wrong = f"retryRefused,{family.value}"
    lab.put(*healed(deploy("web", everywhere(21), TWO, PORTS), wrong))
    (line,) = (line for line in lab.daemon.log().splitlines() if is_about(line, family))
    assert "annotation kubeproxy.io/healing" in line
    assert 'object="mall/web"' in line
    with failing(lab.network, REFUSES, *TWO.split()):
        assert dial(lab, family, *WAYS) == [REFUSED_AT_ONCE] * 4


def is_about(line: str, family: Family) -> bool:
    return "is none of" in line and family.value in line


# --- without a daemon -------------------------------------------------------------------------


@contextlib.contextmanager
def killed(lab: Lab) -> Iterator[None]:
    """Inside, there is no daemon."""
    lab.daemon.stop(signal.SIGKILL)
    try:
        yield
    finally:
        lab.restart()


@contextlib.contextmanager
def stopped(lab: Lab) -> Iterator[None]:
    """Inside, it does nothing."""
    with lab.daemon.paused():
        yield


@FAMILIES
@pytest.mark.parametrize("state", [killed, stopped])
@pytest.mark.parametrize("verdict", [REFUSES, IS_SILENT], ids=["refuses", "is-silent"])
def test_the_kernel_heals_alone(
    lab: Lab,
    family: Family,
    state: Callable[[Lab], contextlib.AbstractContextManager[None]],
    verdict: str,
) -> None:
    lab.run(documents=web())
    with state(lab):
        check_heals(lab, family, verdict)


@FAMILIES
def test_pods_that_left_while_there_was_no_daemon(lab: Lab, family: Family) -> None:
    """Connections to them are reset as soon as there is one."""
    lab.run(documents=web())
    targets = (("P", cluster_ip), ("P", cluster_ip), ("X", vip), ("X", vip))
    connections = [lab.connect(source, kind(21, family), 80) for source, kind in targets]
    connections += [lab.connect("X", in_family("198.51.100.10", family), NODE_PORT) for _ in "12"]
    assert [each.answer.who for each in connections].count("R1") == 3
    with killed(lab):
        assert all(map(talks, connections))
        lab.documents = (*lab.documents[:2], *web("L1"))
    assert [talks(each) for each in connections] == [
        each.answer.who == "L1" for each in connections
    ]


# --- what others change -----------------------------------------------------------------------


def wait_equal(lab: Lab) -> None:
    """Wait until the daemon has repaired everything."""
    deadline = time.monotonic() + SECONDS
    while (ran := run_diff(lab.network.node, f"--socket={lab.socket}")) != EQUAL:
        assert time.monotonic() < deadline, ran


@FAMILIES
def test_rules_of_healing_are_repaired_at_once(lab: Lab, family: Family) -> None:
    lab.run(documents=web())
    node = lab.network.node
    node.run(["nft", f"flush chain {KEYWORD[family]} kube-proxy filter/prerouting-healing"])
    wait_equal(lab)
    check_heals(lab, family, REFUSES)


def test_no_difference_when_connections_were_healed(lab: Lab) -> None:
    """What packets leave behind is none."""
    lab.run(documents=web())
    for family in Family:
        check_heals(lab, family, REFUSES)
        lab.connect("P", cluster_ip(21, family), 80)
        lab.connect("P", cluster_ip(21, family), 80)
    lab.put(*web("L1"))
    assert run_diff(lab.network.node, f"--socket={lab.socket}") == EQUAL


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param(
            "flush chain ip kube-proxy gone",
            [
                f"{GONE} ct protocol tcp {FRONTEND} @reset-gone-services goto reset-client",
                (
                    f"{GONE} ct original ip daddr @nodeport-addresses ct protocol tcp "
                    "ct original proto-dst @reset-gone-nodeports goto reset-client"
                ),
            ],
            id="chain-flushed",
        ),
        pytest.param(
            "insert rule ip kube-proxy retry drop",
            ["- rule ip kube-proxy retry drop # handle N"],
            id="rule-inserted",
        ),
        pytest.param(
            "delete element ip kube-proxy retry-refused-nodeports { 31080 }",
            ["+ element ip kube-proxy retry-refused-nodeports { 31080 }"],
            id="frontend-deleted",
        ),
    ],
)
def test_differences_are_named(lab: Lab, tmp_path: Path, script: str, expected: list[str]) -> None:
    lab.run(documents=web())
    node = lab.network.node
    with remembered(lab.daemon, tmp_path) as answering, lab.daemon.paused():
        node.run(["nft", script])
        ran = run_diff(node, f"--socket={answering.socket}")
    assert ran.code == 1
    assert [_without_handle(line) for line in ran.lines[3:]] == expected
    wait_equal(lab)


def _without_handle(line: str) -> str:
    text, mark, _ = line.partition(" # handle ")
    return f"{text}{mark}N" if mark else text
