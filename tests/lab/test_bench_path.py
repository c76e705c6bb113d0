"""What `make bench` does so that connections through a proxy are measured, and nothing else."""

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.clusters import SERVICE_PORT, Size, cluster_ip
from bench.path import ENDPOINTS, Row, proxying, serving
from bench.proxies import Proxy

OURS = Proxy("kubeproxy", str(Path(sys.executable).with_name("kube-proxy")))
PORT = 40000
TRACKING = """
table inet others {
    chain forward { type filter hook forward priority 0; ct state new counter; }
}
"""

pytestmark = pytest.mark.usefixtures("_own_namespaces")


@pytest.fixture
def row() -> Iterator[Row]:
    row = Row()
    yield row
    row.close()


def dial(row: Row) -> None:
    """Connect to the first service, always from the same port."""
    with row.client.entered():
        client = socket.socket()
    with client:
        client.settimeout(2)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        client.bind(("", PORT))
        client.connect((cluster_ip(0), SERVICE_PORT))


def test_a_port_that_dialled_too_early_can_be_used_when_the_proxy_is_there(row: Row) -> None:
    row.node.run(["nft", "-f", "-"], stdin=TRACKING)
    with serving(row.server, "accept"), pytest.raises(OSError, match="timed out"):
        dial(row)
    with proxying(OURS, row, Size(1, ENDPOINTS), [cluster_ip(0)]), serving(row.server, "accept"):
        dial(row)
