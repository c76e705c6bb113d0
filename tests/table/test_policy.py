import msgspec
import pytest

from kubeproxy.base.inet import Protocol
from kubeproxy.table.entries import Backend, Entry, Frontend, FrontendKind, ServicePortName
from kubeproxy.table.policy import Masquerading, Policy, Refusal, Scope, Source, Why, policies
from kubeproxy.table.route import route, scope_of
from world import Mode

HERE, AWAY = Backend("10.64.3.11", 8080, local=True), Backend("10.65.7.21", 8080)
CLUSTER_IP = Frontend(FrontendKind.CLUSTER_IP, "10.112.0.21", 80)
ENTRY = Entry(ServicePortName("shop", "cart", "http", Protocol.TCP), (CLUSTER_IP,))
KINDS = (FrontendKind.LOAD_BALANCER, FrontendKind.EXTERNAL_IP, FrontendKind.NODE_PORT)


@pytest.mark.parametrize(
    ("policy", "pod", "host", "outside"),
    [
        (Policy.INTERNAL_CLUSTER, "all", "all", "all"),
        (Policy.INTERNAL_LOCAL, "local", "local", "local"),
        (Policy.EXTERNAL_CLUSTER, "all masqueraded", "all masqueraded", "all masqueraded"),
        (Policy.EXTERNAL_LOCAL, "all", "all masqueraded", "local"),
    ],
)
def test_what_each_class_of_source_gets(policy: Policy, pod: str, host: str, outside: str) -> None:
    found = []
    for source in Source:
        treatment = policy.treatment(source)
        endpoints = "local" if treatment.scope is Scope.LOCAL else "all"
        found.append(endpoints + (" masqueraded" if treatment.masquerade else ""))
    assert found == [pod, host, outside]
    assert policy.is_uniform == (pod == host == outside)
    assert {policy.treatment(source).scope for source in Source} == set(policy.scopes)


@pytest.mark.parametrize("internal_local", [False, True])
@pytest.mark.parametrize("external_local", [False, True])
def test_the_two_traffic_policies_are_independent(
    internal_local: bool, external_local: bool
) -> None:
    internal, external = policies(internal_local=internal_local, external_local=external_local)
    assert (internal is Policy.INTERNAL_LOCAL) == internal_local
    assert (external is Policy.EXTERNAL_LOCAL) == external_local
    entry = msgspec.structs.replace(ENTRY, internal=internal, external=external)
    assert entry.policy(FrontendKind.CLUSTER_IP) is internal
    assert {entry.policy(kind) for kind in KINDS} == {external}


def test_a_policy_travels_by_its_name() -> None:
    data = msgspec.json.encode(msgspec.structs.replace(ENTRY, external=Policy.EXTERNAL_LOCAL))
    assert b'"external":"external-local"' in data
    assert msgspec.json.decode(data, type=Entry).external is Policy.EXTERNAL_LOCAL


@pytest.mark.parametrize(
    ("fields", "cluster", "local"),
    [
        pytest.param({}, Refusal.REJECT, Refusal.REJECT, id="no-endpoints"),
        pytest.param({"has_endpoints": True}, Refusal.DROP, Refusal.DROP, id="not-looked-at"),
        pytest.param(
            {"has_endpoints": True, "cluster": (AWAY,)}, None, Refusal.DROP, id="elsewhere"
        ),
        pytest.param(
            {"has_endpoints": True, "cluster": (HERE,), "local": (HERE,)}, None, None, id="here"
        ),
    ],
)
def test_what_happens_without_endpoints(
    fields: dict[str, object], cluster: Refusal | None, local: Refusal | None
) -> None:
    entry = msgspec.structs.replace(ENTRY, **fields)
    assert entry.refusal(Scope.CLUSTER) is cluster
    assert entry.refusal(Scope.LOCAL) is local


@pytest.mark.parametrize(
    ("policy", "fields", "expected"),
    [
        pytest.param(Policy.EXTERNAL_CLUSTER, {}, False, id="none"),
        pytest.param(Policy.EXTERNAL_CLUSTER, {"cluster": (AWAY,)}, True, id="all"),
        pytest.param(Policy.EXTERNAL_CLUSTER, {"local": (HERE,)}, False, id="of-another-policy"),
        pytest.param(Policy.EXTERNAL_LOCAL, {"cluster": (AWAY,)}, True, id="pods-only"),
    ],
)
def test_whether_any_source_gets_an_endpoint(
    policy: Policy, fields: dict[str, object], expected: bool
) -> None:
    entry = msgspec.structs.replace(ENTRY, external=policy, **fields)
    assert {entry.serves(kind) for kind in KINDS} == {expected}


@pytest.mark.parametrize(
    ("masquerading", "source", "expected"),
    [
        (Masquerading.ALWAYS, Source.POD, (True, Why.ALL)),
        (Masquerading.NEVER, Source.OUTSIDE, (False, Why.NO_DETECTOR)),
        (Masquerading.UNLESS_POD, Source.POD, (False, Why.KEPT_FOR_POD)),
        (Masquerading.UNLESS_POD, Source.HOST, (True, Why.OFF_CLUSTER)),
        (Masquerading.UNLESS_POD, Source.OUTSIDE, (True, Why.OFF_CLUSTER)),
    ],
)
def test_the_node_decides_about_sources_of_cluster_ip_traffic(
    masquerading: Masquerading, source: Source, expected: tuple[bool, Why]
) -> None:
    found = route(ENTRY, FrontendKind.CLUSTER_IP, source, masquerading, Mode.NFTABLES.quirks)
    assert (found.masquerade, found.why) == expected
    external = route(ENTRY, FrontendKind.NODE_PORT, source, masquerading, Mode.NFTABLES.quirks)
    assert (external.masquerade, external.why) == (True, Why.CLUSTER_POLICY)


@pytest.mark.parametrize("source", Source)
def test_in_ipvs_mode_all_sources_get_what_clients_outside_get(source: Source) -> None:
    entry = msgspec.structs.replace(
        ENTRY, external=Policy.EXTERNAL_LOCAL, cluster=(HERE, AWAY), local=(HERE,)
    )
    found = route(entry, FrontendKind.NODE_PORT, source, Masquerading.NEVER, Mode.IPVS.quirks)
    assert (found.backends, found.masquerade) == ((HERE,), False)


@pytest.mark.parametrize(
    ("mode", "fields", "expected"),
    [
        pytest.param(Mode.NFTABLES, {"cluster": (AWAY,)}, Scope.LOCAL, id="without-the-quirk"),
        pytest.param(Mode.IPVS, {"cluster": (AWAY,)}, Scope.CLUSTER, id="remote"),
        pytest.param(Mode.IPVS, {"cluster": (AWAY,), "local": (HERE,)}, Scope.LOCAL, id="local"),
        pytest.param(Mode.IPVS, {}, Scope.LOCAL, id="none-at-all"),
    ],
)
def test_remote_endpoints_are_used_where_there_is_no_local_one(
    mode: Mode, fields: dict[str, object], expected: Scope
) -> None:
    entry = msgspec.structs.replace(ENTRY, **fields)
    assert scope_of(entry, Policy.EXTERNAL_LOCAL.outside, mode.quirks) is expected
