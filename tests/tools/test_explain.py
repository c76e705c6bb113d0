"""`kube-proxy explain` as people call it: arguments in, words and exit codes out."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from fakes.apiserver import FakeApiServer
from fakes.daemon import unused_port
from kubeproxy.app.cli import main
from kubeproxy.explain.words import INDENT
from terminals import in_terminal
from tools.manifests import (
    SHOP,
    node_named,
    of_kind,
    pod,
    write,
    write_kubeconfig,
    write_list,
)
from world import (
    CLUSTER_IP,
    EXTERNAL_IP,
    VIP,
    Document,
    endpoint_slice,
    everywhere,
    kestrel,
    service,
)

PODS = "--cluster-cidr=10.64.0.0/14,fd40::/48"
NO_SOCKET = "/nowhere/status.sock"
NO_ADDRESS = f"http://127.0.0.1:{unused_port()}"


@pytest.fixture(autouse=True)
def _empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without a kubeconfig, on a machine that is no node."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr("socket.gethostname", lambda: "Laptop")
    monkeypatch.setattr("kubeproxy.tools.client.SOCKET", NO_SOCKET)
    monkeypatch.setattr("kubeproxy.tools.client.ADDRESS", NO_ADDRESS)


@pytest.fixture
def shop(tmp_path: Path) -> str:
    """A directory with the manifests of the shop."""
    directory = tmp_path / "manifests"
    directory.mkdir()
    write(directory, SHOP)
    return str(directory)


class Asked:
    """Asks, and keeps what came of it."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.code = 0
        self.out = ""
        self.err = ""

    def __call__(self, *arguments: str) -> str:
        self.code = main(["explain", *arguments])
        self.out, self.err = self._capsys.readouterr()
        return self.out

    def json(self, *arguments: str) -> list[dict[str, object]]:
        answers: list[dict[str, object]] = json.loads(self(*arguments, "-o", "json"))
        return answers


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Asked:
    return Asked(capsys)


# --- whole answers ----------------------------------------------------------------------------

POD_TO_CLUSTER_IP = """\
10.64.3.50 (pod) -> 10.112.0.21:80/TCP   on node kestrel, nftables mode
  frontend   cluster IP 10.112.0.21:80/TCP of Service shop/cart, port http
  client     a pod: the address is in the pod range 10.64.0.0/14
  verdict    forwarded to the only endpoint that can be chosen
               10.64.3.11:8080  100 %  on this node
  not chosen 10.64.3.12:8080: it is not ready
             10.65.7.21:8080: its topology hints are for zone z-west, and this node is in z-east
             10.66.9.31:8080: it is terminating, and others are ready
  source     kept: the client is a pod, which every endpoint can answer directly
  replies    go to the client's own address; this node, which they must pass, restores the \
address that the client dialled
  note       10.64.3.50 is Pod shop/client
"""


def test_manifests(ask: Asked, shop: str) -> None:
    out = ask("--manifests", shop, PODS, "--from", "client", "--to", "cart")
    assert (ask.code, out, ask.err) == (0, POD_TO_CLUSTER_IP, "")


OUTSIDE_TO_VIP = """\
192.0.2.1 (outside) -> 203.0.113.7:80/TCP   on node kestrel, iptables mode
  frontend   load-balancer IP 203.0.113.7:80/TCP of Service shop/cart, port http
  client     outside: the address is neither this node's nor in the pod range 10.64.0.0/14
  verdict    forwarded to the only endpoint that can be chosen
               10.64.3.11:8080  100 %  on this node
  not chosen 10.64.3.12:8080: it is not ready
             10.65.7.21:8080: it is on node heron, and the traffic policy is Local
             10.66.9.31:8080: it is on node merlin, and the traffic policy is Local
  source     kept: externalTrafficPolicy is Local, which keeps the client's address
  replies    go to the client's own address; this node, which they must pass, restores the \
address that the client dialled
  note       192.0.2.1 stands for any client outside (--from ADDRESS names one)

192.0.2.1 (outside) -> 198.51.100.77:31080/TCP   on node kestrel, iptables mode
  frontend   node port 31080/TCP of Service shop/cart, port http
  client     outside: the address is neither this node's nor in the pod range 10.64.0.0/14
  verdict    forwarded to the only endpoint that can be chosen
               10.64.3.11:8080  100 %  on this node
  not chosen 10.64.3.12:8080: it is not ready
             10.65.7.21:8080: it is on node heron, and the traffic policy is Local
             10.66.9.31:8080: it is on node merlin, and the traffic policy is Local
  source     kept: externalTrafficPolicy is Local, which keeps the client's address
  replies    go to the client's own address; this node, which they must pass, restores the \
address that the client dialled
  note       192.0.2.1 stands for any client outside (--from ADDRESS names one)
"""


def test_output_saved_from_kubectl_and_several_destinations(ask: Asked, tmp_path: Path) -> None:
    saved = write_list(tmp_path / "cluster.txt", SHOP)
    flags = (f"--manifests={saved}", PODS, "--proxy-mode=iptables")
    out = ask(*flags, "--to", f"{VIP}:80", "--to", "198.51.100.77:31080")
    assert (ask.code, out, ask.err) == (0, OUTSIDE_TO_VIP, "")


POD_TO_A_WRONG_PORT = """\
10.64.3.50 (pod) -> 10.112.0.21:81/TCP   on node kestrel, nftables mode
  client     a pod: the address is in the pod range 10.64.0.0/14
  verdict    rejected with ICMP port unreachable: a service has this address, but not this port \
and protocol
  replies    none: the client gets an error at once (connection refused)
  note       10.64.3.50 is Pod shop/client
  note       services have these ports of the address: 10.112.0.21:80/TCP
"""


async def test_a_kubeconfig(ask: Asked, tmp_path: Path) -> None:
    async with FakeApiServer() as server:
        for document in SHOP:
            server.put(document)
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", server.url)
        flags = (f"--kubeconfig={kubeconfig}", PODS, "--from=shop/client")
        # The command has an event loop of its own; the server runs in ours.
        right = await asyncio.to_thread(ask, *flags, "--to=cart")
        wrong = await asyncio.to_thread(ask, *flags, f"--to={CLUSTER_IP}:81")
    assert (ask.code, right, wrong) == (0, POD_TO_CLUSTER_IP, POD_TO_A_WRONG_PORT)


NOT_ALLOWED = """\
10.64.3.50 (pod) -> 203.0.113.7:80/TCP   on node kestrel, nftables mode
  frontend   load-balancer IP 203.0.113.7:80/TCP of Service shop/cart, port http
  client     a pod: the address is in the pod range 10.64.0.0/14
  verdict    dropped without an answer: the source is in none of spec.loadBalancerSourceRanges
  replies    none: the client waits until it times out
  note       allowed are 192.0.2.0/25, 198.18.0.0/15
"""


def test_endpoints_are_not_mentioned_where_they_do_not_matter(ask: Asked, tmp_path: Path) -> None:
    ranges: Document = {"loadBalancerSourceRanges": ["192.0.2.0/25", "198.18.0.0/15", "fd00::/8"]}
    write(tmp_path, [SHOP[0], of_kind("Service", everywhere(ranges)), SHOP[2]])
    out = ask("--manifests", str(tmp_path), PODS, "--from=10.64.3.50", f"--to={VIP}:80")
    assert (ask.code, out) == (0, NOT_ALLOWED)


def test_json(ask: Asked, shop: str) -> None:
    answers = ask.json(
        "--manifests", shop, PODS, "--from=10.64.3.11", "--to=cart", f"--to={CLUSTER_IP}:81/udp"
    )
    itself = "the client reaches itself, and its reply has to come back through this node"
    assert [
        {
            "node": "kestrel",
            "mode": "nftables",
            "source": "10.64.3.11",
            "sourceClass": "pod",
            "destination": "10.112.0.21:80/TCP",
            "client": "a pod: the address is in the pod range 10.64.0.0/14",
            "verdict": "forward",
            "summary": "forwarded to the only endpoint that can be chosen",
            "reason": "",
            "matched": {
                "namespace": "shop",
                "service": "cart",
                "portName": "http",
                "frontend": "cluster IP",
                "address": "10.112.0.21",
                "port": 80,
                "protocol": "TCP",
            },
            "endpoints": [
                {
                    "endpoint": "10.64.3.11:8080",
                    "percent": 100.0,
                    "node": "kestrel",
                    "onThisNode": True,
                    "sourceRewritten": True,
                    "hairpin": True,
                }
            ],
            "notChosen": [
                {"endpoint": "10.64.3.12:8080", "reason": "it is not ready"},
                {
                    "endpoint": "10.65.7.21:8080",
                    "reason": "its topology hints are for zone z-west, and this node is in z-east",
                },
                {
                    "endpoint": "10.66.9.31:8080",
                    "reason": "it is terminating, and others are ready",
                },
            ],
            "sourceAddress": f"rewritten to an address of this node: {itself}",
            "affinity": "",
            "healing": "",
            "replies": "go to this node, which restores both addresses: the client gets them from "
            "the address that it dialled",
            "notes": [],
        },
        {
            "node": "kestrel",
            "mode": "nftables",
            "source": "10.64.3.11",
            "sourceClass": "pod",
            "destination": "10.112.0.21:81/UDP",
            "client": "a pod: the address is in the pod range 10.64.0.0/14",
            "verdict": "reject",
            "summary": "rejected with ICMP port unreachable: a service has this address, but not "
            "this port and protocol",
            "reason": "undefined-port",
            "matched": None,
            "endpoints": [],
            "notChosen": [],
            "sourceAddress": "",
            "affinity": "",
            "healing": "",
            "replies": "none: the client gets an error at once (connection refused)",
            "notes": ["services have these ports of the address: 10.112.0.21:80/TCP"],
        },
    ] == answers
    assert (ask.code, ask.err) == (0, "")


# --- where from, where to ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("outside", ("192.0.2.1", "outside"), id="outside"),
        pytest.param("host", ("198.51.100.10", "host"), id="host"),
        pytest.param("198.51.100.77", ("198.51.100.77", "host"), id="another-address-of-the-node"),
        pytest.param("10.64.3.50", ("10.64.3.50", "pod"), id="address"),
        pytest.param("client", ("10.64.3.50", "pod"), id="pod"),
        pytest.param("shop/client", ("10.64.3.50", "pod"), id="pod-with-namespace"),
    ],
)
def test_sources(ask: Asked, shop: str, source: str, expected: tuple[str, str]) -> None:
    (answer,) = ask.json("--manifests", shop, PODS, "--from", source, "--to=cart")
    assert expected == (answer["source"], answer["sourceClass"])


@pytest.mark.parametrize(
    "to", ["cart", "shop/cart", "cart:http", "shop/cart:80", "cart:80/tcp", "10.112.0.21"]
)
def test_destinations(ask: Asked, shop: str, to: str) -> None:
    (answer,) = ask.json("--manifests", shop, PODS, "--to", to)
    assert (answer["destination"], answer["verdict"]) == ("10.112.0.21:80/TCP", "forward")


def test_a_dual_stack_service_has_an_answer_for_each_family(ask: Asked, tmp_path: Path) -> None:
    both: Document = {"clusterIPs": [CLUSTER_IP, "fd12::21"], "ipFamilies": ["IPv4", "IPv6"]}
    ipv6 = endpoint_slice(
        "", {"addressType": "IPv6", "endpoints": [{"addresses": ["fd40::11"]}]}, name="cart-6"
    )
    documents = [
        of_kind("Node", kestrel()),
        of_kind("Service", service(both)),
        of_kind("EndpointSlice", endpoint_slice("L1")),
        of_kind("EndpointSlice", ipv6),
        of_kind("Pod", pod("client", "10.64.3.50", "fd40::50")),
    ]
    flags = ("--manifests", str(write(tmp_path, documents)), PODS, "--from=client", "--to=cart")
    assert [
        (answer["source"], answer["destination"], [e["endpoint"] for e in endpoints])
        for answer in ask.json(*flags)
        if isinstance(endpoints := answer["endpoints"], list)
    ] == [
        ("10.64.3.50", "10.112.0.21:80/TCP", ["10.64.3.11:8080"]),
        ("fd40::50", "[fd12::21]:80/TCP", ["[fd40::11]:8080"]),
    ]
    assert "[fd40::11]:8080  100 %  on a node that its slice does not name" in ask(*flags)


# --- the settings of the proxy ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "to", "expected"),
    [
        pytest.param((), f"{EXTERNAL_IP}:80", "forward", id="external-ip"),
        pytest.param(
            ("--feature-gates=AllowServiceExternalIPs=false",),
            f"{EXTERNAL_IP}:80",
            "pass",
            id="external-ips-are-not-allowed",
        ),
        pytest.param((), "198.51.100.77:31080", "pass", id="not-the-primary-address"),
        pytest.param(
            ("--nodeport-addresses=198.51.100.0/24",),
            "198.51.100.77:31080",
            "forward",
            id="node-port-addresses",
        ),
        pytest.param(
            ("--proxy-mode=iptables",), "198.51.100.77:31080", "forward", id="iptables-mode"
        ),
        pytest.param((), "10.112.0.77:80", "drop", id="the-ranges-of-services-are-read"),
    ],
)
def test_settings_of_the_proxy_count(
    ask: Asked, shop: str, flags: tuple[str, ...], to: str, expected: str
) -> None:
    (answer,) = ask.json("--manifests", shop, PODS, *flags, "--to", to)
    assert expected == answer["verdict"]


def test_the_bind_address_is_one_of_the_nodes(ask: Asked, shop: str) -> None:
    flags = ("--manifests", shop, PODS, "--bind-address=198.51.100.99")
    (answer,) = ask.json(*flags, "--from=host", "--to=cart")
    assert (answer["source"], answer["sourceClass"]) == ("198.51.100.99", "host")


def test_the_interface_counts_where_pods_are_known_by_it(ask: Asked, shop: str) -> None:
    flags = (
        *("--manifests", shop, "--from=10.64.3.50", "--to=cart"),
        *("--detect-local-mode=BridgeInterface", "--pod-bridge-interface=cni0"),
    )
    classes = [ask.json(*flags, *more)[0]["sourceClass"] for more in ((), ("--interface", "cni0"))]
    assert classes == ["outside", "pod"]


CONFIG = """\
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: ipvs
clusterCIDR: 10.64.0.0/14
clientConnection:
  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf
"""


async def test_the_config_file_of_the_proxy_with_the_kubeconfig_of_the_user(
    ask: Asked, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    async with FakeApiServer() as server:
        for document in SHOP:
            server.put(document)
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", server.url)
        flags = (f"--config={config}", f"--kubeconfig={kubeconfig}", "--from=10.64.3.50")
        (answer,) = await asyncio.to_thread(ask.json, *flags, "--to=cart")
    assert (answer["mode"], answer["sourceClass"]) == ("ipvs", "pod")


@pytest.mark.parametrize("how", ["--master", "KUBECONFIG", "HOME"])
async def test_other_ways_to_name_a_cluster(
    ask: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    async with FakeApiServer() as server:
        for document in SHOP:
            server.put(document)
        flags = ["--to=cart"]
        if how == "--master":
            flags.append(f"--master={server.url}")
        elif how == "KUBECONFIG":
            kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", server.url)
            monkeypatch.setenv("KUBECONFIG", f"{kubeconfig}:/another")
        else:
            (tmp_path / "home/.kube").mkdir()
            write_kubeconfig(tmp_path / "home/.kube/config", server.url)
        (answer,) = await asyncio.to_thread(ask.json, *flags)
    assert answer["verdict"] == "forward"


# --- why endpoints are not chosen -------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "endpoints", "expected"),
    [
        pytest.param({}, "L1 L2:unready", ["it is not ready"], id="not-ready"),
        pytest.param(
            {}, "L1 L2:stopped", ["it is terminating and no longer serves"], id="stopped"
        ),
        pytest.param(
            {},
            "L1 L2:draining",
            ["it is terminating, and others are ready"],
            id="draining",
        ),
        pytest.param(
            {},
            "L1%kestrel R1%heron",
            ["its topology hints are for node heron, and this is kestrel"],
            id="another-node-by-hints",
        ),
        pytest.param(
            {"internalTrafficPolicy": "Local"},
            "R1",
            ["it is on node heron, and the traffic policy is Local"],
            id="none-here",
        ),
        pytest.param({}, "L1:unready", ["it is not ready"], id="none-at-all"),
        pytest.param(
            {"externalTrafficPolicy": "Local"},
            "L1 R1",
            ["it is on node heron, and the traffic policy is Local"],
            id="not-local",
        ),
    ],
)
def test_endpoints_that_are_not_chosen(
    ask: Asked, tmp_path: Path, spec: Document, endpoints: str, expected: list[str]
) -> None:
    slice_ = of_kind("EndpointSlice", endpoint_slice(endpoints))
    write(tmp_path, [SHOP[0], of_kind("Service", everywhere(spec)), slice_])
    to = f"{VIP}:80" if "externalTrafficPolicy" in spec else "cart"
    (answer,) = ask.json("--manifests", str(tmp_path), PODS, "--to", to)
    assert isinstance(answer["notChosen"], list)
    assert expected == [each["reason"] for each in answer["notChosen"]]


def test_an_endpoint_without_a_node_is_not_local(ask: Asked, tmp_path: Path) -> None:
    svc = of_kind("Service", service({"internalTrafficPolicy": "Local"}))
    nameless = endpoint_slice("", {"endpoints": [{"addresses": ["10.64.3.11"]}]})
    write(tmp_path, [SHOP[0], svc, of_kind("EndpointSlice", nameless)])
    (answer,) = ask.json("--manifests", str(tmp_path), PODS, "--to=cart")
    why = "its slice does not say on which node it is, and the traffic policy is Local"
    assert [{"endpoint": "10.64.3.11:8080", "reason": why}] == answer["notChosen"]


def test_what_iptables_mode_lets_out_is_about_endpoints_too(ask: Asked, tmp_path: Path) -> None:
    slice_ = of_kind("EndpointSlice", endpoint_slice("L1:unready"))
    write(tmp_path, [SHOP[0], of_kind("Service", everywhere()), slice_])
    flags = ("--manifests", str(tmp_path), "--proxy-mode=iptables", "--from=host")
    (answer,) = ask.json(*flags, f"--to={VIP}:80")
    assert (answer["verdict"], answer["reason"]) == ("pass", "not-checked-on-output")
    assert answer["notChosen"] == [{"endpoint": "10.64.3.11:8080", "reason": "it is not ready"}]


def test_no_source_of_the_family_is_allowed(ask: Asked, tmp_path: Path) -> None:
    svc = of_kind("Service", everywhere({"loadBalancerSourceRanges": ["fd00::/8"]}))
    write(tmp_path, [SHOP[0], svc, SHOP[2]])
    (answer,) = ask.json("--manifests", str(tmp_path), "--from=192.0.2.9", f"--to={VIP}:80")
    assert answer["notes"] == ["allowed are no IPv4 sources at all"]


def test_services_that_claim_the_same_address(ask: Asked, tmp_path: Path) -> None:
    till = service({"clusterIP": "10.112.0.22", "externalIPs": [VIP]}, name="till")
    write(tmp_path, [*SHOP[:3], of_kind("Service", till)])
    flags = ("--manifests", str(tmp_path), PODS, "--from=192.0.2.9")
    vip, own = ask.json(*flags, f"--to={VIP}:80", "--to=cart")
    note = "shop/till:http claims 203.0.113.7:80/TCP too and does not get it"
    assert ([note], []) == (vip["notes"], own["notes"])


# --- remarks and errors -----------------------------------------------------------------------


def test_remarks_go_to_standard_error(ask: Asked, tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("kind: Service\nspec: [\n")
    write(tmp_path, [SHOP[1], SHOP[2]])
    out = ask("--manifests", str(tmp_path), "--node=kestrel", "--to=cart")
    first, second = ask.err.splitlines()
    assert first.startswith(f"note: skipped: {broken}:3:1: ")
    missing = "no Node kestrel in the manifests: its addresses and zone are not known"
    assert f"note: {missing}" == second
    assert ask.code == 0
    assert "Service shop/cart" in out


TWO_NODES = [*SHOP, of_kind("Node", node_named("heron", "198.51.100.20"))]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        pytest.param(
            ("--to=cart",),
            "on which node is the packet? Give --node with one of: heron, kestrel",
            id="several-nodes",
        ),
        pytest.param(
            ("--to=cart", "--node=merlin"),
            "there is no Node merlin; there are: heron, kestrel",
            id="unknown-node",
        ),
        pytest.param(
            ("--to=till", "--node=kestrel"),
            "--to till: no such Service is proxied; give [NAMESPACE/]NAME or an address "
            "(headless and ExternalName Services are not proxied)",
            id="unknown-service",
        ),
        pytest.param(
            ("--to=cart:https", "--node=kestrel"),
            "--to cart:https: the Service has no such port, but these: http (80/TCP)",
            id="unknown-port",
        ),
        pytest.param(
            ("--to=10.112.0.21:99999", "--node=kestrel"),
            "--to 10.112.0.21:99999: '99999' is not a port number",
            id="bad-port",
        ),
        pytest.param(
            ("--to=cart", "--from=stranger", "--node=kestrel"),
            "--from stranger: it is no address, and no Pod of that name is known; give "
            "[NAMESPACE/]POD, its address, outside or host (with --manifests, Pods are read "
            "from there too: kubectl get pods -A -o yaml)",
            id="unknown-pod",
        ),
        pytest.param(
            ("--to=cart", "--from=fd40::50", "--node=kestrel"),
            "--from fd40::50: it is IPv6, but the destination is IPv4",
            id="mixed-families",
        ),
        pytest.param(
            (),
            "say where the packet goes: kube-proxy explain SERVICE, or --to",
            id="no-destination",
        ),
        pytest.param(
            ("--to=cart", "-o", "yaml"), "--output yaml: must be text or json", id="bad-output"
        ),
        pytest.param(
            ("--to=cart", "--cluster-cidr=10.64.0.0"),
            "failed validate: KubeProxyConfiguration.DetectLocalConfiguration.ClusterCIDRs[0]: "
            'Invalid value: "10.64.0.0": must be a valid CIDR block '
            "(e.g. 10.100.0.0/16 or fde4:8dba:82e1::/48)",
            id="bad-cidr",
        ),
        pytest.param(
            ("--to=cart", "--config=/nowhere"),
            "failed complete: open /nowhere: no such file or directory",
            id="no-config-file",
        ),
    ],
)
def test_errors(ask: Asked, tmp_path: Path, flags: tuple[str, ...], expected: str) -> None:
    ask("--manifests", str(write(tmp_path, TWO_NODES)), *flags)
    assert (1, "", f"Error: {expected}\n") == (ask.code, ask.out, ask.err)


def test_the_node_of_the_pod_is_meant_unless_another_is_named(ask: Asked, tmp_path: Path) -> None:
    far = of_kind("Pod", pod("far", "10.65.7.99", node="heron"))
    flags = ("--manifests", str(write(tmp_path, [*TWO_NODES, far])), PODS, "--to=cart")
    (there,) = ask.json(*flags, "--from=far")
    (here,) = ask.json(*flags, "--from=far", "--node=KESTREL")
    assert (there["node"], there["notes"]) == ("heron", ["10.65.7.99 is Pod shop/far"])
    where = "10.65.7.99 is Pod shop/far, whose packets are handled on node heron (--node heron)"
    assert ("kestrel", [where]) == (here["node"], here["notes"])


def test_an_ambiguous_service(ask: Asked, tmp_path: Path) -> None:
    other: Document = {
        "metadata": {"namespace": "other", "name": "cart"},
        "spec": {"clusterIP": "10.112.0.99", "ports": [{"port": 80}]},
    }
    ask("--manifests", str(write(tmp_path, [*SHOP, of_kind("Service", other)])), "--to=cart")
    expected = "Error: --to cart: several Services have that name: other/cart, shop/cart\n"
    assert (1, expected) == (ask.code, ask.err)


@pytest.mark.parametrize(
    ("flags", "code", "expected"),
    [
        pytest.param(
            (),
            3,
            "no cluster is named: give --manifests DIRECTORY or --kubeconfig FILE; no kube-proxy"
            f" answers here:\n  {NO_SOCKET}: there is no such socket\n"
            f"  {NO_ADDRESS}: Connection refused\nIs it running on this node? Its socket"
            " (statusSocket, --status-socket of the daemon) is named with --socket, its metrics"
            " address with --address.",
            id="no-cluster-and-no-daemon",
        ),
        pytest.param(
            ("--manifests=/nowhere",),
            1,
            "the manifests in /nowhere cannot be read: No such file or directory",
            id="no-directory",
        ),
        pytest.param(
            ("--kubeconfig=/nowhere",),
            1,
            "stat /nowhere: no such file or directory; check --kubeconfig or "
            "clientConnection.kubeconfig",
            id="no-kubeconfig",
        ),
    ],
)
def test_no_cluster(
    ask: Asked,
    flags: tuple[str, ...],
    code: int,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kubeproxy.tools.offline.kernels_mode", lambda: "")
    ask("--to=cart", *flags)
    assert (code, "", f"Error: {expected}\n") == (ask.code, ask.out, ask.err)


def test_inside_a_pod_the_service_account_is_used(
    ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.112.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr("kubeproxy.cluster.client.kubeconfig.SERVICE_ACCOUNT", "/nowhere")
    ask("--to=cart")
    expected = (
        "Error: open /nowhere/token: no such file or directory; does the pod mount a service "
        "account token?"
    )
    assert (1, expected) == (ask.code, ask.err.splitlines()[-1])


def test_a_destination_needs_no_flag(ask: Asked, tmp_path: Path) -> None:
    manifests = ("--manifests", str(write(tmp_path, TWO_NODES)), "--node=kestrel")
    ask(*manifests, "--to=cart")
    expected = (ask.code, ask.out)
    ask(*manifests, "cart")
    assert expected == (ask.code, ask.out)
    ask(*manifests, "--to=cart", "cart")
    assert ask.out.count("verdict") == 2


def test_an_unknown_flag_shows_the_usage(ask: Asked) -> None:
    ask("--too=cart")
    assert ask.err.startswith("Usage:\n  kube-proxy explain DESTINATION... [flags]\n")
    assert ask.err.endswith("\nError: unknown flag: --too (did you mean --to?)\n")
    assert (ask.code, ask.out) == (1, "")


def test_help(ask: Asked) -> None:
    out = ask("--help")
    assert (ask.code, ask.err) == (0, "")
    assert out.startswith("Usage:\n  kube-proxy explain DESTINATION... [flags]\n")
    listed = [line.split()[0] for line in out.splitlines() if line.startswith("      --")]
    assert listed[:4] == ["--from", "--to", "--node", "--interface"]
    assert "  -o, --output string (default text)" in out.splitlines()
    assert "--manifests" in listed
    assert "--metrics-port" not in out


def test_help_wins_over_whatever_stands_beside_it(ask: Asked) -> None:
    ask("-h", "cart")
    assert ask.code == 0


# --- in a terminal ----------------------------------------------------------------------------


def test_the_text_fits_the_terminal(shop: str) -> None:
    program = "import sys; from kubeproxy.app.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "explain", f"--manifests={shop}", "--to=cart"]
    with in_terminal(command, columns=70) as terminal:
        assert terminal.wait() == 0
        lines = terminal.said.splitlines()
    assert max(map(len, lines)) <= 70
    assert any(line.startswith(" " * INDENT) for line in lines)
