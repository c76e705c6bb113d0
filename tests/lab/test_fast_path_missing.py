"""Kernels without flowtables: the fast path stays off and says why, and nothing else suffers."""

import json
import time
from collections.abc import Callable

import pytest

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.nftables.fastpath.check import finding
from kubeproxy.dataplane.preflight import Grade
from lab.deploy import Port, deploy, everywhere
from lab.launch import launcher
from lab.modes import only
from lab.offloaded import FLAG, listed, talk, why_none
from lab.plan import cluster_ip
from lab.stage import Lab

WHY = "the kernel has no flowtables"

pytestmark = only("nftables", reason="other modes have no fast path")


@pytest.fixture(autouse=True)
def _no_flowtables(lab: Lab) -> None:
    if not why_none(lab.network.node):
        pytest.skip("the kernel has flowtables")


def wait(until: Callable[[], bool], lab: Lab) -> None:
    deadline = time.monotonic() + 60.0
    while not until():
        assert time.monotonic() < deadline, lab.daemon.said()
        time.sleep(0.05)


def test_services_are_served_and_the_log_says_why(lab: Lab) -> None:
    lab.run(FLAG, documents=deploy("web", everywhere(21), "L1", [Port()]))
    wait(lambda: WHY in lab.daemon.log(), lab)
    assert "The fast path is off, and all packets meet the rules" in lab.daemon.log()
    for family in Family:
        talk(lab.connect("P", cluster_ip(21, family), 80))
    assert not listed(lab.network.node)


def test_status_says_why(lab: Lab) -> None:
    lab.run(FLAG, documents=deploy("web", everywhere(21), "L1", [Port()]))
    wait(lambda: _status(lab)["reason"] == "self-test", lab)
    path = _status(lab)
    assert (path["wanted"], path["on"], path["connections"]) == (True, False, {})
    assert WHY in str(path["whyNot"])


def _status(lab: Lab) -> dict[str, object]:
    found: dict[str, object] = json.loads(_tool(lab, "status", "-o", "json"))["fastPath"]
    return found


def _tool(lab: Lab, *words: str) -> str:
    with lab.network.node.entered():
        return launcher().tool([*words, f"--socket={lab.socket}"], {"PYTHONWARNINGS": "error"}).out


def test_people_are_told(lab: Lab) -> None:
    lab.run(FLAG, documents=deploy("web", everywhere(21), "L1", [Port()]))
    wait(lambda: _status(lab)["reason"] == "self-test", lab)
    text = _tool(lab, "status")
    assert "The fast path is off" in text
    assert "fast path" in text
    assert WHY in " ".join(text.split())


@pytest.mark.parametrize(("wanted", "grade"), [(True, Grade.WARNING), (False, Grade.OK)])
def test_what_check_finds(lab: Lab, wanted: bool, grade: Grade) -> None:  # a case
    with lab.network.node.entered():
        found = finding(tuple(Family), wanted=wanted)
    assert found.state is grade
    assert WHY in found.detail
