"""A daemon of one mode on a few manifests, in a network of its own, and what its ports say."""

from pathlib import Path

from lab.deploy import Port, deploy, everywhere
from lab.documents import kestrel, service_cidr
from lab.namespaces import Namespace
from lab.page import METRICS, ask
from lab.programmer import DaemonProcess
from lab.stage import CLUSTER_CIDR_FLAG
from world import Document, Mode

GATE = "--feature-gates=KubeProxyNFTablesLocalhostNodePorts=true"


class Running:
    """A daemon of one mode, and what it says on its ports."""

    def __init__(self, node: Namespace, mode: Mode, directory: Path) -> None:
        self.mode = mode
        self.daemon = DaemonProcess(node, directory)
        self._node = node
        self._documents = deploy("cart", everywhere(21), "L1 R1", [Port(node_port=31080)])

    def start(self) -> None:
        """Start it; returns when both families are programmed."""
        self.daemon.start(self._flags(), self._cluster())

    def launch(self, *flags: str) -> None:
        """Start it, and do not wait for anything."""
        self.daemon.write(self._cluster())
        self.daemon.launch([*self._flags(), *flags])

    def change(self) -> None:
        """Have both families sync something."""
        self.daemon.put(self._cluster())

    def get(self, path: str, port: int = METRICS) -> tuple[int, str]:
        """Status and body that its metrics server has, or another port."""
        return ask(self._node, path, port=port)

    def _flags(self) -> list[str]:
        flags = [f"--proxy-mode={self.mode.value}", CLUSTER_CIDR_FLAG, GATE]
        # The machine's own conntrack settings are not this namespace's to change.
        flags += ["--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s"]
        flags += ["--conntrack-tcp-timeout-close-wait=0s"]
        return flags

    def _cluster(self) -> tuple[Document, ...]:
        return (kestrel(), service_cidr(), *self._documents)
