"""This node while the daemon runs: its Node object, its interfaces, and what follows from both.

The addresses and pod ranges of the Node are read once, because the configuration is checked
against them; a change of these calls for a restart.
"""

import asyncio
from collections.abc import Callable

from msgspec.structs import replace

from kubeproxy.base import klog
from kubeproxy.base.errors import KubeProxyError, OperatorError
from kubeproxy.base.inet import Family
from kubeproxy.cluster.model.cluster import Cluster
from kubeproxy.cluster.model.node import NodeState
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.config.gates import Gates
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.engine.node import node_ips, node_view, with_bind_address
from kubeproxy.engine.node_checks import by_node_cidr, restart_reason
from kubeproxy.linux.links import interface_addresses
from kubeproxy.table.node import NodeView

NODE_IP_WAIT = 30.0
POD_CIDR_WAIT = 300.0


class RestartNeeded(KubeProxyError):
    """Something changed that is read once, at the start: the daemon has to be started again."""


class OwnNode:
    """This node.

    `device` is one whose addresses do not count. The Node object is not `awaited` where nothing
    creates it while the daemon waits, as with manifests.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: KubeProxyConfiguration,
        gates: Gates,
        device: str = "",
        *,
        awaited: bool = True,
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._gates = gates
        self.device = device
        self._awaited = awaited
        self._at_start: NodeState | None = None
        self._started = False
        self._change = asyncio.Event()
        self._waiting = ""
        self._waiting_since = 0.0
        self._addresses: dict[Family, tuple[str, ...]] = {}

    @property
    def state(self) -> NodeState:
        """What the Node object and the configuration say of it now."""
        return with_bind_address(self._cluster.node, self._config.bind_address)

    def is_eligible(self) -> bool:
        """Whether load balancers should use it."""
        node = self._cluster.node
        return node is not None and node.eligible

    def addresses(self, family: Family) -> tuple[str, ...]:
        """The addresses of its interfaces."""
        if family not in self._addresses:
            self._addresses[family] = interface_addresses(family, self.device)
        return self._addresses[family]

    def waiting(self) -> tuple[str, float] | None:
        """What of the Node is waited for, and for how many seconds; None when nothing is."""
        if not self._waiting:
            return None
        return self._waiting, asyncio.get_running_loop().time() - self._waiting_since

    def _wait_for(self, what: str) -> None:
        self._waiting = what
        self._waiting_since = asyncio.get_running_loop().time()

    def is_unknown(self) -> bool:
        """Whether the API server has no Node of our name."""
        return self._awaited and self._cluster.synced(Kind.NODE) and self._cluster.node is None

    def missing_address(self, family: Family) -> str:
        """Our address of the family if no interface has it; "" when one has, or we have none."""
        ip = node_ips(self.state).get(family, "")
        return "" if ip in self.addresses(family) else ip

    def addresses_changed(self) -> None:
        """Addresses of interfaces changed: read them again when they are needed."""
        self._addresses.clear()

    def view(self, family: Family) -> NodeView:
        """One family of it."""
        return replace(
            node_view(self._config, self._gates, family, self.state),
            name=self._cluster.node_name,
            addresses=self.addresses(family),
            service_cidrs=self._cluster.service_cidrs(family),
        )

    def changed(self) -> None:
        """The Node was added, changed or deleted, or all objects of a kind are known.

        Raises `RestartNeeded` when the daemon cannot follow that.
        """
        self._change.set()
        if self._started:
            reason = restart_reason(self._at_start, self._cluster.node, self._config)
            if reason:
                raise RestartNeeded(f'node "{self._cluster.node_name}": {reason}')

    async def wait_known(self) -> None:
        """Wait for addresses of the Node, and for pod ranges where they are needed.

        There is no time limit until the API server says whether there is a Node: rules of an
        earlier run stay in force, which is better than rules of a node without addresses.
        """
        name = self._cluster.node_name
        self._wait_for(f"its source to say whether there is a Node {name}")
        await self.wait_until(lambda: self._cluster.synced(Kind.NODE))
        self._wait_for(f"the addresses of Node {name}")
        if not await self._wait(lambda node: bool(node.ips), NODE_IP_WAIT):
            what = "be assigned IPs" if self._cluster.node else "exist"
            klog.error(f"Timed out waiting for node to {what}", node=name)
        ranges_needed = by_node_cidr(self._config)
        self._wait_for(f"the pod ranges of Node {name}")
        if ranges_needed and not await self._wait(lambda n: bool(n.pod_cidrs), POD_CIDR_WAIT):
            if self._cluster.node is None:
                raise OperatorError(f'timeout waiting for node "{name}" to exist')
            raise OperatorError(f'timeout waiting for PodCIDR allocation on node "{name}"')
        self._at_start = self._cluster.node
        self._started = True
        self._waiting = ""

    async def _wait(self, satisfied: Callable[[NodeState], bool], seconds: float) -> bool:
        """Wait until the Node satisfies; not at all where nothing creates it."""

        def done() -> bool:
            node = self._cluster.node
            return node is not None and satisfied(node)

        return not self._awaited or await self.wait_until(done, seconds)

    async def wait_until(
        self, condition: Callable[[], bool], seconds: float | None = None
    ) -> bool:
        """Wait for a condition that events can fulfil; whether it came in time."""
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    self._change.clear()
                    await self._change.wait()
        except TimeoutError:
            return False
        return True
