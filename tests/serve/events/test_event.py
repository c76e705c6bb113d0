import msgspec
import pytest

from kubeproxy.base.version import KUBERNETES_VERSION, VERSION
from kubeproxy.serve.events.event import (
    Event,
    Occurrence,
    Severity,
    Subject,
    create,
    endpoint_ejected,
    health_server_failed,
    metrics_server_failed,
    service_health_port_failed,
    starting,
    timestamp,
    update,
)

NODE = Subject("Node", "kestrel")


def test_a_start_has_the_version_and_the_mode() -> None:
    expected = Event(
        NODE,
        Severity.NORMAL,
        "Starting",
        "StartKubeProxy",
        f"kubeproxy {VERSION} (kube-proxy {KUBERNETES_VERSION}) in nftables mode",
    )
    assert expected == starting("kestrel", "nftables")


def test_a_health_port_that_fails_concerns_its_service() -> None:
    service = Subject("Service", "cart", "shop")
    expected = Event(
        service,
        Severity.WARNING,
        "FailedToStartServiceHealthcheck",
        "Listen",
        'node kestrel failed to start healthcheck "shop/cart" on port 30080: taken',
    )
    assert expected == service_health_port_failed("kestrel", service, 30080, "taken")


def test_an_endpoint_that_is_left_out_concerns_its_service() -> None:
    service = Subject("Service", "cart", "shop")
    note = "node kestrel: 10.64.3.11:8080 is left out for 5 s"
    expected = Event(service, Severity.WARNING, "EndpointEjected", "Eject", note)
    assert expected == endpoint_ejected("kestrel", service, "10.64.3.11:8080 is left out for 5 s")


def test_servers_that_fail_concern_the_node() -> None:
    failed = [
        health_server_failed("kestrel", OSError("taken")),
        metrics_server_failed("kestrel", "taken"),
    ]
    reasons = ["FailedToStartProxierHealthcheck", "FailedToStartMetricServer"]
    assert [
        Event(NODE, Severity.WARNING, reason, "StartKubeProxy", "taken") for reason in reasons
    ] == failed


def test_a_subject_reads_as_kubectl_names_it() -> None:
    assert [str(NODE), str(Subject("Service", "cart", "shop"))] == ["kestrel", "shop/cart"]


# --- as requests ------------------------------------------------------------------------------

NOW = 1794788679710989123
REFUSED = service_health_port_failed("kestrel", Subject("Service", "cart", "shop"), 30080, "taken")


def test_an_event_of_the_node_is_written_as_upstream_writes_it() -> None:
    start = starting("kestrel", "nftables")
    request = create(Occurrence(start, NOW, NOW), "kestrel.example")
    assert (
        request.method,
        request.path,
        request.content_type,
    ) == ("POST", "/apis/events.k8s.io/v1/namespaces/default/events", "application/json")
    assert {
        "kind": "Event",
        "apiVersion": "events.k8s.io/v1",
        "metadata": {"name": f"kestrel.{NOW:x}", "namespace": "default"},
        "eventTime": "2026-11-16T00:24:39.710989Z",
        "reportingController": "kube-proxy",
        "reportingInstance": "kube-proxy-kestrel.example",
        "action": "StartKubeProxy",
        "reason": "Starting",
        "regarding": {"kind": "Node", "apiVersion": "v1", "name": "kestrel"},
        "type": "Normal",
        "note": start.note,
    } == msgspec.json.decode(request.body)


def test_an_event_of_a_service_lives_in_its_namespace() -> None:
    request = create(Occurrence(REFUSED, NOW, NOW + 10**9, count=2), "k")
    body = msgspec.json.decode(request.body)
    assert request.path == "/apis/events.k8s.io/v1/namespaces/shop/events"
    assert body["metadata"] == {"name": f"cart.{NOW:x}", "namespace": "shop"}
    assert body["regarding"] == {
        "kind": "Service",
        "apiVersion": "v1",
        "name": "cart",
        "namespace": "shop",
    }
    assert body["note"] == REFUSED.note
    assert body["type"] == "Warning"
    assert body["series"] == {"count": 2, "lastObservedTime": "2026-11-16T00:24:40.710989Z"}


def test_a_series_changes_the_event_that_is_there() -> None:
    request = update(Occurrence(REFUSED, NOW, NOW + 10**9, count=7))
    assert (
        "PATCH",
        f"/apis/events.k8s.io/v1/namespaces/shop/events/cart.{NOW:x}",
        "application/strategic-merge-patch+json",
    ) == (request.method, request.path, request.content_type)
    assert msgspec.json.decode(request.body) == {
        "series": {"count": 7, "lastObservedTime": "2026-11-16T00:24:40.710989Z"}
    }


def test_what_the_server_would_refuse_for_its_length_is_clipped() -> None:
    event = msgspec.structs.replace(REFUSED, note="ü" * 600)
    body = msgspec.json.decode(create(Occurrence(event, NOW, NOW), "h" * 300).body)
    assert body["note"] == "ü" * 512
    assert len(body["reportingInstance"]) == 128


@pytest.mark.parametrize(
    ("nanoseconds", "expected"),
    [
        pytest.param(0, "1970-01-01T00:00:00.000000Z", id="the-beginning"),
        pytest.param(999, "1970-01-01T00:00:00.000000Z", id="less-than-a-microsecond"),
        pytest.param(NOW, "2026-11-16T00:24:39.710989Z", id="with-microseconds"),
    ],
)
def test_times_have_microseconds(nanoseconds: int, expected: str) -> None:
    assert expected == timestamp(nanoseconds)
