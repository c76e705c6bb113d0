import re

from kubeproxy.base.version import KUBERNETES_VERSION, VERSION
from kubeproxy.config.gates import Gates, resolve
from kubeproxy.serve.metrics.families import Counter, Gauge
from kubeproxy.serve.metrics.process import program_families
from kubeproxy.serve.metrics.registry import Registry
from serve.metrics.exposed import shown


def values(gates: Gates) -> dict[str, str]:
    registry = Registry()
    registry.add(Gauge("a", "[ALPHA] x"), Counter("b_total", "[STABLE] x"), Gauge("c", "x"))
    families = program_families(registry, gates)
    registry.add(*families)
    return shown(*families)


def test_versions() -> None:
    found = values(Gates())
    assert found[f'kubeproxy_build_info{{version="{VERSION}"}}'] == "1"
    (build,) = (series for series in found if series.startswith("kubernetes_build_info"))
    assert f'git_version="{KUBERNETES_VERSION}",go_version="python3.' in build
    assert re.search(r'major="1",minor="\d+",platform="linux/\w+"\}$', build)


def test_feature_gates_and_their_stages() -> None:
    gates, _ = resolve({"KubeProxyNFTablesLocalhostNodePorts": True, "WatchListClient": False})
    found = values(gates)
    feature = 'kubernetes_feature_enabled{name="%s",stage="%s"}'
    assert found[feature % ("KubeProxyNFTablesLocalhostNodePorts", "ALPHA")] == "1"
    assert found[feature % ("WatchListClient", "BETA")] == "0"
    assert found[feature % ("KubeProxyIPVS", "DEPRECATED")] == "1"
    assert found[feature % ("NFTablesProxyMode", "")] == "1"


def test_families_are_counted_by_stability() -> None:
    found = values(Gates())
    level = 'registered_metrics_total{deprecated_version="",stability_level="%s"}'
    assert {name: found[level % name] for name in ("ALPHA", "BETA", "STABLE", "INTERNAL")} == {
        "ALPHA": "1",
        "BETA": "5",
        "STABLE": "1",
        "INTERNAL": "2",
    }
    assert found["hidden_metrics_total"] == found["disabled_metrics_total"] == "0"
