"""Rules and dashboard ask for series that there are, by labels that these have."""

import itertools
import re
from collections.abc import Iterator

import msgspec
import pytest

from deploy.objects import Metadata, Selector, Strict, daemon_set
from deploy.overlays import overlay
from deploy.promql import Read, uses
from serve.metrics.table import Row, rows

FOUND = overlay("monitoring")
JOB = "kube-proxy"
NAME = "kubeproxy"
# What Prometheus and its operator put on every series of a target.
TARGET_LABELS = {*("job", "instance", "namespace", "service", "pod", "endpoint", "container")}
MADE_BY_PROMETHEUS = {"up"}
DOCUMENTED: dict[str, Row] = {row.name: row for row in rows() if not row.ours.startswith("absent")}
_VARIABLE = re.compile(r"\$labels\.(\w+)")
_LEGEND = re.compile(r"\{\{\s*(\w+)\s*\}\}")


class Rule(Strict, frozen=True):
    alert: str
    expr: str
    for_: str = msgspec.field(name="for")
    labels: dict[str, str]
    annotations: dict[str, str]


class Group(Strict, frozen=True):
    name: str
    rules: tuple[Rule, ...]


class Groups(Strict, frozen=True):
    groups: tuple[Group, ...]


class PrometheusRule(Strict, frozen=True):
    api_version: str
    kind: str
    metadata: Metadata
    spec: Groups


class Relabeling(Strict, frozen=True):
    source_labels: tuple[str, ...]
    target_label: str


class Endpoint(Strict, frozen=True):
    port: str
    interval: str
    honor_labels: bool
    relabelings: tuple[Relabeling, ...]


class Monitored(Strict, frozen=True):
    job_label: str
    selector: Selector
    endpoints: tuple[Endpoint]


class ServiceMonitor(Strict, frozen=True):
    api_version: str
    kind: str
    metadata: Metadata
    spec: Monitored


class ServicePort(Strict, frozen=True):
    name: str
    port: int
    target_port: int


class ServiceSpec(Strict, frozen=True):
    cluster_ip: str = msgspec.field(name="clusterIP")
    selector: dict[str, str]
    ports: tuple[ServicePort]


class Service(Strict, frozen=True):
    api_version: str
    kind: str
    metadata: Metadata
    spec: ServiceSpec


class Place(msgspec.Struct, frozen=True):
    h: int
    w: int
    x: int
    y: int


class Target(msgspec.Struct, frozen=True, rename="camel"):
    ref_id: str
    expr: str
    legend_format: str = ""


class Panel(msgspec.Struct, frozen=True, rename="camel"):
    id: int
    type: str
    title: str
    grid_pos: Place
    targets: tuple[Target, ...] = ()


class Variable(msgspec.Struct, frozen=True):
    name: str
    type: str
    query: str | dict[str, str]


class Variables(msgspec.Struct, frozen=True):
    list: tuple[Variable, ...]


class Dashboard(msgspec.Struct, frozen=True):
    title: str
    uid: str
    panels: tuple[Panel, ...]
    templating: Variables


RULES = msgspec.convert(FOUND["PrometheusRule", NAME], PrometheusRule).spec.groups[0].rules
DASHBOARD = msgspec.json.decode(
    msgspec.convert(FOUND["ConfigMap", "kubeproxy-dashboard"]["data"], dict[str, str])[
        "dashboard.json"
    ],
    type=Dashboard,
)
TARGETS = [
    pytest.param(target, id=f"{panel.title} {target.ref_id}")
    for panel in DASHBOARD.panels
    for target in panel.targets
]


def labels_of(read: Read) -> set[str]:
    """The labels that the series of a name have."""
    if read.metric in MADE_BY_PROMETHEUS:
        return TARGET_LABELS
    row = DOCUMENTED.get(read.metric)
    if row is not None:
        assert row.kind != "histogram", f"{read.metric} has only buckets, sum and count"
        return TARGET_LABELS | row.labels
    family, _, part = read.metric.rpartition("_")
    assert part in {"bucket", "sum", "count"}, f"there is no {read.metric}"
    assert DOCUMENTED[family].kind == "histogram"
    return TARGET_LABELS | DOCUMENTED[family].labels | ({"le"} if part == "bucket" else set())


def check(expression: str, spoken_of: set[str]) -> None:
    """Fail unless all that is asked for exists, and the labels spoken of survive."""
    parts = uses(expression)
    assert parts.reads
    for read in parts.reads:
        known = labels_of(read)
        assert read.labels - known == set()
        if parts.grouped is not None:
            assert parts.grouped - known == set()
    left = parts.grouped
    if left is None:
        is_sum = parts.functions & {"sum", "max", "count", "histogram_quantile"}
        left = frozenset() if is_sum else frozenset(labels_of(parts.reads[0]))
    assert spoken_of - left == set()


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.alert) for rule in RULES])
def test_a_rule_asks_for_what_there_is(rule: Rule) -> None:
    check(rule.expr, set(_VARIABLE.findall(" ".join(rule.annotations.values()))))
    assert {"severity"} == rule.labels.keys()
    assert {"summary", "description"} == rule.annotations.keys()


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.alert) for rule in RULES])
def test_no_data_is_no_alarm_but_for_the_one_that_is_about_that(rule: Rule) -> None:
    """Most series are of one mode, or appear when something has happened."""
    parts = uses(rule.expr)
    if "absent" in parts.functions:
        assert {read.metric for read in parts.reads} == {"up"}


@pytest.mark.parametrize("target", TARGETS)
def test_a_panel_asks_for_what_there_is(target: Target) -> None:
    check(target.expr, set(_LEGEND.findall(target.legend_format)))
    for read in uses(target.expr).reads:
        assert {"job", "instance"} <= read.labels


@pytest.mark.parametrize(
    ("expression", "spoken_of"),
    [
        pytest.param("kubeproxy_nonsense_total", set(), id="a-metric-that-is-not"),
        pytest.param('kubeproxy_build_info{colour="red"}', set(), id="a-label-that-is-not"),
        pytest.param("kubeproxy_sync_proxy_rules_duration_seconds", set(), id="a-bare-histogram"),
        pytest.param("sum by (code) (kubeproxy_build_info)", set(), id="a-group-that-is-not"),
        pytest.param("sum(kubeproxy_build_info)", {"version"}, id="a-label-that-is-summed-away"),
    ],
)
def test_the_check_notices(expression: str, spoken_of: set[str]) -> None:
    with pytest.raises((AssertionError, KeyError)):
        check(expression, spoken_of)


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    ids = [panel.id for panel in DASHBOARD.panels]
    assert len(set(ids)) == len(ids)
    places = [(panel.title, panel.grid_pos) for panel in DASHBOARD.panels]
    assert [title for title, place in places if place.x + place.w > 24] == []
    overlapping = [
        (first, second)
        for (first, a), (second, b) in itertools.combinations(places, 2)
        if a.x < b.x + b.w and b.x < a.x + a.w and a.y < b.y + b.h and b.y < a.y + a.h
    ]
    assert overlapping == []


def test_the_dashboards_variables_are_defined_and_ask_for_what_there_is() -> None:
    def words() -> Iterator[str]:
        for panel in DASHBOARD.panels:
            for target in panel.targets:
                yield from re.findall(r"\$(\w+)", target.expr)

    assert set(words()) <= {variable.name for variable in DASHBOARD.templating.list}
    (query,) = (v.query for v in DASHBOARD.templating.list if isinstance(v.query, dict))
    match = re.fullmatch(r"label_values\((.*), (\w+)\)", query["query"])
    assert match is not None
    check(match[1], {match[2]})


def test_the_monitor_finds_the_service_and_this_the_pods() -> None:
    monitor = msgspec.convert(FOUND["ServiceMonitor", NAME], ServiceMonitor)
    service = msgspec.convert(FOUND["Service", NAME], Service)
    daemon = daemon_set(FOUND)
    assert monitor.spec.selector.match_labels.items() <= service.metadata.labels.items()
    assert service.spec.selector == daemon.spec.template.metadata.labels
    (endpoint,), (port,) = monitor.spec.endpoints, service.spec.ports
    assert endpoint.port == port.name
    (container,) = daemon.pod.containers
    assert port.target_port in {each.container_port for each in container.ports}
    assert service.metadata.labels[monitor.spec.job_label] == JOB
    assert [each.target_label for each in endpoint.relabelings] == ["instance"]


def test_labels_that_targets_have_too_keep_their_meaning() -> None:
    """Without `honorLabels` all connections would be those of the Service kubeproxy."""
    clashing = {label for row in DOCUMENTED.values() for label in row.labels} & TARGET_LABELS
    assert {"namespace", "service", "endpoint"} == clashing
    monitor = msgspec.convert(FOUND["ServiceMonitor", NAME], ServiceMonitor)
    assert monitor.spec.endpoints[0].honor_labels
