"""The examples: they load without a remark, and every command that their comments name works."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kubeproxy.app.cli import main
from kubeproxy.base.inet import Family, parse_address
from kubeproxy.cluster.manifests.source import load
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.cluster.objects.types import EndpointSlice
from lab.plan import CLUSTER_CIDR, HOSTS, NODE_NAME_OF

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
PODS = f"--cluster-cidr={','.join(CLUSTER_CIDR[family] for family in Family)}"

WEB = ["10.64.3.11:8080", "10.64.3.12:8080", "10.65.7.21:8080"]
CART = ["10.64.3.12:8081", "10.64.3.13:8081", "10.66.9.31:8081"]
DNS = ["10.64.3.13:53", "10.66.9.31:53"]
DNS_IPV6 = ["[fd40:0:0:2::31]:53", "[fd40::13]:53"]
ANSWERS: dict[str, list[tuple[str, list[str]]]] = {
    "--to shop/web": [("forward", WEB)],
    "--from shop/shopper --to shop/web": [("forward", WEB)],
    "--to 198.51.100.10:30080": [("forward", CART)],
    "--from 192.0.2.50 --to 203.0.113.20:443": [("forward", ["10.64.3.11:8443"])],
    "--from 192.0.2.200 --to 203.0.113.20:443": [("drop", [])],
    "--from shop/shopper --to shop/reports": [("reject", [])],
    "--from shop/shopper --to kube-system/kube-dns": [
        *[("forward", DNS)] * 2,
        *[("forward", DNS_IPV6)] * 2,
    ],
    "--from host --to [fd12::a]:53/udp": [("forward", DNS_IPV6)],
}
"""The questions that the comments ask, and the verdict and endpoints of each answer."""


def commands() -> list[str]:
    """The commands in the comments of the examples, without what they have in common."""
    texts = [path.read_text() for path in sorted(EXAMPLES.glob("*.yaml"))]
    found = re.findall(r"^#   kube-proxy (.*)$", "\n".join(texts), re.MULTILINE)
    return [command.replace("'", "") for command in found]


def test_nothing_is_wrong_with_them() -> None:
    loaded = load([str(EXAMPLES)], "kestrel")
    assert (loaded.problems, loaded.duplicates) == ([], [])
    kinds = [kind for kind, _ in loaded.objects]
    assert {kind: kinds.count(kind) for kind in Kind} == {
        Kind.SERVICE: 5,
        Kind.ENDPOINT_SLICE: 6,
        Kind.NODE: 1,
        Kind.SERVICE_CIDR: 1,
    }


def test_their_endpoints_are_hosts_of_the_lab_on_the_nodes_that_they_name() -> None:
    loaded = load([str(EXAMPLES)], "kestrel")
    slices = [each for each in loaded.objects.values() if isinstance(each, EndpointSlice)]
    nodes = {
        parse_address(HOSTS[name].address(family)): node
        for name, node in NODE_NAME_OF.items()
        for family in Family
    }
    endpoints = [endpoint for each in slices for endpoint in each.endpoints or ()]
    named = {parse_address((each.addresses or ("",))[0]): each.node_name for each in endpoints}
    assert named == {address: nodes.get(address) for address in named}


def test_every_question_in_the_comments_has_its_answer_here() -> None:
    prefix = "explain --manifests examples "
    asked = {line.removeprefix(prefix) for line in commands() if line.startswith(prefix)}
    assert asked == set(ANSWERS)


@pytest.mark.parametrize("question", ANSWERS)
@pytest.mark.parametrize("pods", [PODS, ""], ids=["with-the-pod-range", "as-written"])
def test_questions_are_answered(
    question: str, pods: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    arguments = ["explain", "--manifests", "examples", *question.split(), "--output=json"]
    assert main([*arguments, *pods.split()]) == 0
    said = capsys.readouterr()
    answers = [
        (answer["verdict"], [endpoint["endpoint"] for endpoint in answer["endpoints"]])
        for answer in json.loads(said.out)
    ]
    assert answers == ANSWERS[question]
    assert said.err == ""


@pytest.mark.slow
def test_the_dry_run_in_the_comments(tmp_path: Path) -> None:
    (command,) = [line for line in commands() if not line.startswith("explain")]
    program = "import sys; from kubeproxy.app.cli import main; sys.exit(main())"
    log = tmp_path / "log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-c", program, *command.split()], cwd=ROOT, stderr=stderr
        )
    try:
        deadline = time.monotonic() + 20
        while log.read_text().count('"Synced"') < len(Family) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 128 + signal.SIGTERM
    finally:
        process.kill()
    lines = log.read_text().splitlines()
    assert [line for line in lines if line.startswith("E")] == []
    assert len([line for line in lines if '"Would add"' in line]) == 8
