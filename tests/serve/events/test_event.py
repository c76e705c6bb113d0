from kubeproxy.base.version import KUBERNETES_VERSION, VERSION
from kubeproxy.serve.events.event import (
    Event,
    Severity,
    Subject,
    health_server_failed,
    metrics_server_failed,
    service_health_port_failed,
    starting,
)

NODE = Subject("Node", "kestrel")


def test_a_start_says_who_started_and_in_which_mode() -> None:
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
