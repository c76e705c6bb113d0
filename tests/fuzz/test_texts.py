"""Config, kubeconfig and manifests: whatever is in them, an error of ours says what is wrong."""

import contextlib

import pytest

from fuzz.rounds import fuzz_bytes
from kubeproxy.base.errors import KubeProxyError
from kubeproxy.cluster.client.access import Access
from kubeproxy.cluster.client.credentials import Credentials
from kubeproxy.cluster.client.kubeconfig import choose_access
from kubeproxy.cluster.client.kubeconfigfile import parse_kubeconfig
from kubeproxy.cluster.manifests.documents import parse
from kubeproxy.cluster.objects.decode import TYPE_OF_KIND, convert
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.config.decode import decode
from kubeproxy.config.defaults import with_defaults
from kubeproxy.config.gates import resolve
from kubeproxy.config.validate import validate
from kubeproxy.dataplane.modes import MODES

CONFIG = b"""apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clusterCIDR: 10.64.0.0/14,fd40::/48
featureGates: {A: true}
clientConnection: {qps: 5.5, burst: 10, kubeconfig: /x}
conntrack: {maxPerCore: 32768, tcpEstablishedTimeout: 24h0m0s}
iptables: &a {masqueradeBit: 14, minSyncPeriod: 1s}
nodePortAddresses: [primary, 10.0.0.0/8]
logging: {verbosity: 2, options: {json: {infoBufferSize: 64Ki}}, flushFrequency: 5000000000}
"""
KUBECONFIG = b"""apiVersion: v1
kind: Config
current-context: x
contexts: [{name: x, context: {cluster: c, user: u}}]
clusters:
- name: c
  cluster: &a {server: 'https://us:pw@api:6443/x', certificate-authority-data: Zm9v}
users:
- name: u
  user: {token: abc, as: me, as-groups: [g], as-user-extra: {k: [v]}}
"""
EXEC = b"""{"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c", "user":
"u"}}], "clusters": [{"name": "c", "cluster": {"server": "https://api", "extensions": [{"name":
"client.authentication.k8s.io/exec", "extension": {"a": [1, null]}}]}}], "users": [{"name": "u",
"user": {"exec": {"command": "./p", "apiVersion": "client.authentication.k8s.io/v1", "args": ["a"],
"env": [{"name": "N", "value": "v"}], "interactiveMode": "Never"}}}]}"""
MANIFEST = b"""apiVersion: v1
kind: Service
metadata: {name: cart, namespace: shop, annotations: {n: "a\\u00e9"}}
spec:
  clusterIP: 10.112.0.21
  ports: &a
  - {name: http, port: 80, nodePort: 0x7918}
  externalIPs: [198.18.0.5]
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: kestrel}, spec: {<<: {podCIDR: 10.0.0.0/24}}}
"""
JSON = b"""{"apiVersion": "v1", "kind": "ServiceList", "items": [{"metadata": {"name": "a"},
"spec": {"clusterIP": "10.112.0.1", "ports": [{"port": 80}]}}]} {"apiVersion": "v1",
"kind": "Node", "metadata": {"name": "x\\u00e9"}}"""


def as_text(data: bytes) -> str:
    """What reading a file gives; bytes that are no UTF-8 are refused there."""
    return data.decode(errors="ignore")


def read_config(data: bytes) -> None:
    with contextlib.suppress(KubeProxyError):
        config = with_defaults(decode(as_text(data))[0])
        gates, _ = resolve(config.feature_gates)
        validate(config, gates, MODES)


def test_configs() -> None:
    fuzz_bytes([CONFIG], read_config)


def read_kubeconfig(data: bytes) -> None:
    with contextlib.suppress(KubeProxyError):
        access = choose_access(parse_kubeconfig(as_text(data), "/"), "", lambda _: None)
        assert isinstance(access, Access)
        Credentials(access, {}, 0.0)


@pytest.mark.usefixtures("quiet")
def test_kubeconfigs() -> None:
    fuzz_bytes([KUBECONFIG, EXEC], read_kubeconfig)


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No certificates of the system are read a thousand times."""
    monkeypatch.setattr("kubeproxy.cluster.client.credentials.TlsContexts", lambda *_: None)


def read_manifest(data: bytes) -> None:
    for name in ("file.yaml", "file.json"):
        with contextlib.suppress(KubeProxyError):
            for document in parse(as_text(data), name):
                kinds = [kind for kind in Kind if kind.value == document.kind]
                for kind in kinds:
                    found = convert(kind, document.body)
                    assert isinstance(found, TYPE_OF_KIND[kind])
                    found.metadata.name.encode()


def test_manifests() -> None:
    fuzz_bytes([MANIFEST, JSON], read_manifest)
