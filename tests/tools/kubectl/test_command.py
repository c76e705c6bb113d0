"""`kubectl kubeproxy` as people call it, with a kubectl that answers what a test wants."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from fakes.kubectl import FakeCluster, Object, install, node, pod
from kubeproxy.app.cli import kubectl_completion, kubectl_plugin
from tools import reported

HEALTHZ = "/api/v1/namespaces/kube-system/pods/go-1:10256/proxy/healthz"
MODE = "/api/v1/namespaces/kube-system/pods/go-1:10249/proxy/proxyMode"
UNWELL = replace(reported.family(), not_programmed=(reported.REFUSED,))
Call = Callable[..., tuple[int, str, str]]


def go(name: str, where: str) -> Object:
    labels = {"k8s-app": "kube-proxy"}
    return pod(name, where, labels=labels, image="registry.k8s.io/kube-proxy:v1.36.2")


def printing(text: str, code: int = 0) -> list[str]:
    """What prints a text, whatever it is asked."""
    return [sys.executable, "-c", f"import sys; print({text!r}); sys.exit({code})"]


def saying(value: object) -> list[str]:
    return printing(msgspec.json.encode(value).decode())


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    return FakeCluster(
        pods=[pod("ours-1", "kestrel"), pod("ours-2", "osprey")],
        nodes=[node("kestrel"), node("osprey")],
        inside={"ours-1": saying(reported.status()), "ours-2": saying(reported.status())},
        calls=str(tmp_path / "calls"),
    )


@pytest.fixture
def call(
    cluster: FakeCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Call:
    def called(*arguments: str) -> tuple[int, str, str]:
        for name, value in install(tmp_path, cluster).items():
            monkeypatch.setenv(name, value)
        code = kubectl_plugin(arguments)
        return code, *capsys.readouterr()

    return called


# --- status -----------------------------------------------------------------------------------


def test_all_is_well(call: Call) -> None:
    assert call("status") == (
        0,
        """\
kube-proxy is well on 2 nodes

NODE     HEALTH  PROXY     VERSION  LAST SYNC  CONNTRACK  SERVICES  FAILED
kestrel  well    nftables  0.9.0      2 s ago          -         3       0
osprey   well    nftables  0.9.0      2 s ago          -         3       0
""",
        "",
    )


def test_the_worst_come_first_and_each_trouble_once(call: Call, cluster: FakeCluster) -> None:
    cluster.pods += [go("go-1", "heron"), pod("ours-4", "merlin")]
    cluster.nodes += [node("heron"), node("hobby", "False"), node("merlin")]
    cluster.raw = {HEALTHZ: "{}", MODE: "iptables"}
    for name in ("ours-1", "ours-2"):
        cluster.inside[name] = saying(reported.status(UNWELL))
    code, out, err = call("status")
    assert (code, err) == (1, "")
    assert (
        out
        == """\
kube-proxy is NOT well on 4 of 5 nodes

NODE     HEALTH     PROXY         VERSION  LAST SYNC  CONNTRACK  SERVICES  FAILED
hobby    DOWN       none          -                -          -         -       -
kestrel  NOT well   nftables      0.9.0      2 s ago          -         3       1
osprey   NOT well   nftables      0.9.0      2 s ago          -         3       1
merlin   NO ANSWER  -             0.1.0            -          -         -       -
heron    well       Go, iptables  v1.36.2          -          -         -       -

no pod of kube-proxy is on this node, and the Node is not Ready
  on node hobby

IPv4: the kernel does not have 1 service port
  on 2 nodes: kestrel, osprey
    shop/cart:http TCP: the kernel has no SCTP
  Others are not affected. Each is tried again by itself; change what the reason names if it stays.

Error from server: error dialing backend: no route to the node of "ours-4"
  on node merlin
"""
    )


def test_for_programs(call: Call) -> None:
    code, out, _ = call("status", "-o", "json", "--node=osprey")
    (found,) = json.loads(out)["nodes"]
    assert code == 0
    assert (found["node"], found["grade"], found["services"]) == ("osprey", "WELL", 3)


@pytest.mark.parametrize(
    ("raw", "code", "expected"),
    [
        ({HEALTHZ: "{}", MODE: "ipvs"}, 0, "well Go, ipvs v1.36.2"),
        ({HEALTHZ: "{}"}, 0, "well Go v1.36.2"),
        ({HEALTHZ: "Error from server (ServiceUnavailable): it is not"}, 1, "NOT well Go v1.36.2"),
        (
            {HEALTHZ: "Error (ServiceUnavailable): error trying to reach service: EOF"},
            0,
            "not known Go v1.36.2",
        ),
        ({}, 0, "not known Go v1.36.2"),
    ],
)
def test_a_go_kube_proxy(
    call: Call, cluster: FakeCluster, raw: dict[str, str], code: int, expected: str
) -> None:
    cluster.pods, cluster.nodes, cluster.raw = [go("go-1", "heron")], [node("heron")], raw
    found, out, _ = call("status")
    row = next(line for line in out.splitlines() if line.startswith("heron "))
    assert (found, " ".join(row.split()[1:-4])) == (code, expected)
    _, _, err = call("services", "--all-nodes")
    assert "no answer of heron: it runs the Go kube-proxy" in err


def test_one_that_does_not_answer_in_time(call: Call, cluster: FakeCluster) -> None:
    cluster.inside["ours-2"] = [sys.executable, "-c", "import time; time.sleep(60)"]
    code, out, _ = call("status", "--timeout=6s")
    assert code == 1
    assert "no answer within 6 s\n  on node osprey" in out


# --- several nodes ----------------------------------------------------------------------------


def test_services_of_all_nodes(call: Call, cluster: FakeCluster) -> None:
    cluster.inside["ours-1"] = saying(reported.services(reported.CART, reported.REPORTS))
    cluster.inside["ours-2"] = saying(reported.services(reported.CART))
    code, out, err = call("services", "--all-nodes")
    assert (code, err) == (0, "")
    head, cart, reports, first, second = out.splitlines()
    assert head.split()[-3:] == ["CONNECTIONS", "PER", "SECOND"]
    assert cart.split()[-2:] == ["2,400", "25.0"]
    assert reports.split()[0] == "shop/reports"
    assert (first.strip(), second.strip()) == (
        "no endpoint can serve (on kestrel)",
        "not served (on osprey)",
    )


def test_an_answer_that_is_none(call: Call, cluster: FakeCluster) -> None:
    cluster.inside["ours-1"] = saying(reported.services(reported.CART))
    cluster.inside["ours-2"] = printing("{}")
    code, out, err = call("services", "--all-nodes")
    assert (code, "shop/cart" in out) == (1, True)
    assert err.startswith("note: no answer of osprey: it is of another version: ")


def test_differences(call: Call, cluster: FakeCluster) -> None:
    cluster.inside["ours-1"] = printing("- rule x", 1)
    cluster.inside["ours-2"] = ["true"]
    code, out, err = call("diff", "--all-nodes")
    assert (code, err) == (1, "")
    assert out == "=== node kestrel\n- rule x\n\n=== node osprey\nno difference\n"
    assert call("diff", "--node=kestrel") == (1, "- rule x\n", "")
    assert call("diff", "--node=osprey") == (0, "", "")


TRACED = (
    '{"time":"2026-09-01T12:00:00.123Z","ipFamily":"IPv4","protocol":"TCP","servicePort":"shop/cart"'
    ',"client":"10.64.3.50:3","frontend":"cluster-ip","destination":"10.112.0.21:80"'
    ',"endpoint":"10.64.3.11:80","node":"kestrel","onThisNode":true,"sourceRewrittenTo":null}'
)


def test_connections_of_several_nodes(call: Call, cluster: FakeCluster) -> None:
    cluster.pods.append(go("go-1", "heron"))
    cluster.inside["ours-1"] = printing(TRACED)
    cluster.inside["ours-2"] = ["sh", "-c", "echo '1 connection' >&2; echo none; exit 1"]
    code, out, err = call("trace", "--all-nodes", "--to=shop/cart")
    head, row = out.splitlines()
    assert code == 1
    assert head.split()[:4] == ["TIME", "SEEN", "BY", "PROTO"]
    assert row.split()[1:5] == ["kestrel", "TCP", "shop/cart", "10.64.3.50:3"]
    assert "note: no answer of heron: it runs the Go kube-proxy" in err
    assert {"osprey: 1 connection", "osprey: none"} <= set(err.splitlines())
    code, out, _ = call("trace", "--node=kestrel", "--to=shop/cart", "-o=json")
    assert (code, json.loads(out)["seenBy"]) == (0, "kestrel")


@pytest.mark.parametrize("command", ["trace", "top", "bundle"])
def test_no_node_can_be_asked(call: Call, cluster: FakeCluster, command: str) -> None:
    cluster.pods = [go("go-1", "heron")]
    code, out, err = call(command, "--node=heron")
    assert (code, out) == (1, "")
    assert err.startswith("note: no answer of heron: it runs the Go kube-proxy")


# --- mistakes, and what kubectl is given ------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "Usage:"),
        (("statsu",), "did you mean status?"),
        (("x",), "there are status, services, explain"),
        (("status", "x"), "does not take any arguments"),
        (("services",), "Give --node with one of: kestrel, osprey"),
        (("services", "--node=none"), "nodes are kestrel, osprey"),
        (("services", "a", "b", "--node=kestrel"), "one service at a time"),
        (("services", "a", "--all-nodes"), "one node at a time"),
        (("explain", "--node=kestrel"), "--to is missing"),
        (("explain", "--from=gone", "--to=a"), 'pods "gone" not found'),
        (("status", "--selector=a in (b)"), "no pod in namespace kube-system"),
        (("diff", "--pod=a/b/c"), "give [NAMESPACE/]NAME"),
        (("diff", "-o=yaml"), "must be text or json"),
    ],
)
def test_mistakes(call: Call, arguments: tuple[str, ...], expected: str) -> None:
    code, out, err = call(*arguments)
    assert (code, expected in out + err) == (2, True)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([""], "status\thow each node is, the worst first"),
        (["di"], "diff\twhether the kernel has what is meant"),
        (["diff", "--fa"], "--family\tIPv4 or IPv6; default: all that the proxy serves."),
        (["diff", "--family", "IPv4"], "IPv4"),
        (["diff", "--kubeconfig", ""], ":0"),
        (["none", "-"], ":4"),
    ],
)
def test_completion(words: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert kubectl_completion(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == expected
    assert lines[-1] == (":0" if expected == ":0" else ":4")


def test_a_bundle(call: Call, cluster: FakeCluster, tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    cluster.inside["ours-1"] = [
        *(sys.executable, "-c", "import sys; print(sys.argv[1:])", "bundle"),
    ]
    code, out, err = call("bundle", "--node=kestrel", f"--file={path}", "--hide=names")
    assert (code, out, err) == (0, "", f"note: {path} is the bundle of node kestrel\n")
    assert path.read_text() == "['bundle', 'kube-proxy', 'bundle', '--file=-', '--hide=names']\n"
    assert "exists: give --force" in call("bundle", "--node=kestrel", f"--file={path}")[2]
    code, _, err = call("bundle", "--node=osprey", f"--file={tmp_path}/c")
    assert code == 0
    cluster.inside["ours-2"] = ["false"]
    code, _, err = call("bundle", "--node=osprey", f"--file={tmp_path}/d")
    assert (code, "there is no bundle of node osprey" in err) == (2, True)
    assert not (tmp_path / "d").exists()


def test_help(call: Call) -> None:
    code, out, _ = call("--help")
    assert (code, "  status    how each node is, the worst first" in out) == (0, True)
    code, out, _ = call("trace", "--help")
    assert code == 0
    assert all(f"--{name} " in out for name in ("to", "endpoint", "node", "context", "parallel"))


def test_flags_of_kubectl_are_passed_on(call: Call, cluster: FakeCluster) -> None:
    call("status", "--context=prod", "--as-group=a", "--as-group=b", "-n=kube-system")
    calls = [json.loads(line) for line in Path(cluster.calls).read_text().splitlines()]
    assert all(each[:3] == ["--context=prod", "--as-group=a", "--as-group=b"] for each in calls)
    assert len(calls) == 4  # pods, nodes, and two daemons


def test_what_may_not_be_read_is_left_out(call: Call, cluster: FakeCluster) -> None:
    cluster.forbidden = ["nodes"]
    code, out, err = call("status")
    assert (code, "kestrel" in out) == (0, True)
    assert err.startswith("note: nodes without a proxy are not shown: kubectl get nodes: Error")


def test_without_kubectl(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert kubectl_plugin(["status"]) == 2


def test_what_kubectl_logs_is_not_repeated(call: Call, cluster: FakeCluster) -> None:
    said = r"E1119 22:25:47.8 7 x.go:1] no\nThe connection was refused"
    cluster.inside["ours-2"] = ["sh", "-c", f"printf '{said}' >&2; exit 1"]
    assert "\nThe connection was refused\n  on node osprey\n" in call("status")[1]
    cluster.inside["ours-2"] = ["sh", "-c", "echo 'E1119 22:25:47.8 7 x.go:1] no' >&2; exit 1"]
    assert "x.go:1] no\n  on node osprey\n" in call("status")[1]
