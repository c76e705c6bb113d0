"""Our own Node: waited for at the start, and watched for changes that call for a restart.

Its addresses and pod ranges are read once, because the configuration is checked against them.
"""

import asyncio
from collections.abc import Callable

from kubeproxy.base import klog
from kubeproxy.base.errors import KubeProxyError, OperatorError
from kubeproxy.cluster.model.cluster import Cluster
from kubeproxy.cluster.model.node import NodeState
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.engine.node_checks import by_node_cidr, restart_reason

NODE_IP_WAIT = 30.0
POD_CIDR_WAIT = 300.0


class RestartNeeded(KubeProxyError):
    """Something changed that is read once, at the start: whoever runs us should start us again."""


class OwnNode:
    """Our Node, as the cluster tells of it.

    It is `awaited` unless nobody will make it while we wait, as with manifests.
    """

    def __init__(
        self, cluster: Cluster, config: KubeProxyConfiguration, *, awaited: bool = True
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._awaited = awaited
        self._at_start: NodeState | None = None
        self._started = False
        self._change = asyncio.Event()

    def changed(self) -> None:
        """Our Node came, changed or went, or a kind is known completely.

        Raises `RestartNeeded` when that cannot be followed.
        """
        self._change.set()
        if self._started:
            reason = restart_reason(self._at_start, self._cluster.node, self._config)
            if reason:
                raise RestartNeeded(f'node "{self._cluster.node_name}": {reason}')

    async def wait_known(self) -> None:
        """Wait for our addresses, and for pod ranges where they are needed.

        As long as the API server does not say whether there is a Node, there is nothing to time:
        rules that an earlier run left stay in force, which is better than to replace them by
        rules of a node without addresses.
        """
        await self.wait_until(lambda: self._cluster.synced(Kind.NODE))
        name = self._cluster.node_name
        if not await self._wait(lambda node: bool(node.ips), NODE_IP_WAIT):
            what = "be assigned IPs" if self._cluster.node else "exist"
            klog.error(f"Timed out waiting for node to {what}", node=name)
        ranges_needed = by_node_cidr(self._config)
        if ranges_needed and not await self._wait(lambda n: bool(n.pod_cidrs), POD_CIDR_WAIT):
            if self._cluster.node is None:
                raise OperatorError(f'timeout waiting for node "{name}" to exist')
            raise OperatorError(f'timeout waiting for PodCIDR allocation on node "{name}"')
        self._at_start = self._cluster.node
        self._started = True

    async def _wait(self, satisfied: Callable[[NodeState], bool], seconds: float) -> bool:
        """Wait until our Node satisfies; not at all where nobody makes it."""

        def done() -> bool:
            node = self._cluster.node
            return node is not None and satisfied(node)

        return not self._awaited or await self.wait_until(done, seconds)

    async def wait_until(
        self, condition: Callable[[], bool], seconds: float | None = None
    ) -> bool:
        """Wait for what news can bring about; whether it came in time."""
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    self._change.clear()
                    await self._change.wait()
        except TimeoutError:
            return False
        return True
