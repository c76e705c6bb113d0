"""What the daemon's servers say, asked from any namespace of the lab."""

import http.client
import re
from collections.abc import Mapping

from kubeproxy.base.inet import Family
from lab.namespaces import Namespace

METRICS = 10249
HEALTH = 10256
_SAMPLE = re.compile(r"(\w+)\{(.*)\} (\S+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')


def ask(
    namespace: Namespace,
    path: str,
    address: str = "127.0.0.1",
    headers: Mapping[str, str] | None = None,
    port: int = METRICS,
) -> tuple[int, str]:
    """Status and body."""
    connection = http.client.HTTPConnection(address, port, timeout=10)
    try:
        with namespace.entered():
            connection.connect()
        connection.request("GET", path, headers=dict(headers or {}))
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def samples(text: str, metric: str) -> list[tuple[dict[str, str], float]]:
    """The samples of a metric: labels and value."""
    found = (_SAMPLE.fullmatch(line) for line in text.splitlines())
    return [
        (dict(_LABEL.findall(match[2])), float(match[3]))
        for match in found
        if match is not None and match[1] == metric
    ]


def connections(
    node: Namespace, service: str, family: Family, by: tuple[str, ...]
) -> dict[tuple[str, ...], float]:
    """The connections of a service in a family, by the values of some labels."""
    _, text = ask(node, "/metrics?name[]=kubeproxy_service_connections_total")
    return {
        tuple(labels[name] for name in by): value
        for labels, value in samples(text, "kubeproxy_service_connections_total")
        if labels["service"] == service and labels["ip_family"] == family.value
    }
