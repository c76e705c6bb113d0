"""The stage: what every act needs."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from demo.cluster import Cluster, Frontend
from demo.proxy import Proxy
from demo.screen import Screen
from demo.traffic import Traffic
from lab.namespaces import Namespace
from lab.network import Network

DIRECTORY = Path("/run/demo")
"""Below /run, which is a file system of this process alone: it ends with us."""
MANIFESTS = "examples"


class Stage(msgspec.Struct, frozen=True):
    """The screen, the network, the cluster, the proxy and the traffic.

    `counted_before` is what the kernel had counted before the first act.
    """

    screen: Screen
    network: Network
    cluster: Cluster
    proxy: Proxy
    traffic: Traffic
    counted_before: Mapping[Frontend, int]

    @property
    def node(self) -> Namespace:
        """The node on which the proxy runs."""
        return self.network.node
