"""The daemon: builds the parts, wires them, and runs the task tree. Knows all other modules.

It ends only by being told to (a signal cancels it) or with an exception that says why: a failing
sync or an API server that is gone are no reason.
"""

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from kubeproxy import klog
from kubeproxy.config.gates import ALLOW_SERVICE_EXTERNAL_IPS, Gates
from kubeproxy.config.notice import Level, Notice
from kubeproxy.config.types import KubeProxyConfiguration, LocalMode
from kubeproxy.config.warnings import NodeFacts, family_warnings, node_port_warnings
from kubeproxy.dataplane.contract import Dataplane
from kubeproxy.errors import KubeProxyError, OperatorError
from kubeproxy.filewatch import wait_content_changed
from kubeproxy.flows import StaleFlows
from kubeproxy.follow import Follower
from kubeproxy.happenings import Happening, Listener
from kubeproxy.inet import Family
from kubeproxy.kernel.links import interface_addresses, watch_addresses
from kubeproxy.model.cluster import Cluster
from kubeproxy.model.node import NodeState, primary_ips
from kubeproxy.nodefacts import NodeIPs, Surroundings, node_ips, node_view
from kubeproxy.objects.meta import Kind
from kubeproxy.schedule import Schedule
from kubeproxy.source.contract import Source
from kubeproxy.sync import FamilySync, Outlet, Setting
from kubeproxy.table.compile import Vantage
from kubeproxy.table.entries import Balance
from kubeproxy.table.node import Mode

FULL_SYNC_PERIOD = 3600.0
NODE_IP_WAIT = 30.0
POD_CIDR_WAIT = 300.0
SERVICE_CIDR_WAIT = 1.0
FIRST_SYNC_POLL = 0.5


class RestartNeeded(KubeProxyError):
    """Something changed that is read once, at the start: whoever runs us should start us again."""


class _Initialised(Exception):
    """What --init-only asks for is done."""


class Setup(msgspec.Struct, frozen=True):
    """All that a run depends on.

    `waits_for_node` is False where nobody will make our Node while we wait, as with manifests.
    `config_file` and its content are watched; "" when there is none. `after_first_sync` is called
    once, in a thread, when every family is programmed.
    """

    config: KubeProxyConfiguration
    gates: Gates
    node_name: str
    source: Source
    families: tuple[Family, ...]
    dataplane: Callable[[Family], Dataplane]
    cleans_flows: bool = True
    waits_for_node: bool = True
    config_file: str = ""
    config_content: bytes = b""
    init_only: bool = False
    after_first_sync: Callable[[], None] | None = None


def tell(notice: Notice) -> None:
    """Put a notice of the configuration into the log."""
    say: Mapping[Level, Callable[..., None]] = {
        Level.INFO: klog.info,
        Level.WARNING: klog.warning,
        Level.ERROR: klog.error,
    }
    say[notice.level](notice.message, **notice.pairs)


class Daemon:
    """One run of the proxy."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._cluster = Cluster(
            setup.node_name,
            allow_external_ips=setup.gates.enabled(ALLOW_SERVICE_EXTERNAL_IPS),
        )
        self._at_start: NodeState | None = None
        self._started = False
        self._news = asyncio.Event()
        self._addresses: dict[Family, tuple[str, ...]] = {}
        self._dataplanes: dict[Family, Dataplane] = {}
        self._flows: list[StaleFlows] = []
        self._listeners: list[Listener] = []
        self.syncs: Mapping[Family, FamilySync] = {
            family: self._family_sync(family) for family in setup.families
        }
        self._follower = Follower(
            self._cluster, tuple(self.syncs.values()), self._told_news, self._tell
        )

    def _tell(self, happening: Happening) -> None:
        for listener in self._listeners:
            listener(happening)

    async def run(self) -> None:
        """Run until cancelled, or until something calls for a restart."""
        try:
            async with asyncio.TaskGroup() as tasks:
                source = self._setup.source
                tasks.create_task(source.run(self._follower.deliver), name="source")
                if self._setup.config_file:
                    tasks.create_task(self._watch_config(), name="config file")
                tasks.create_task(watch_addresses(self._addresses_changed), name="addresses")
                await self._wait_node()
                await self._wait_service_cidrs()
                if self._setup.init_only:
                    raise _Initialised  # noqa: TRY301  # the way to end a task group
                for family, sync in self.syncs.items():
                    tasks.create_task(sync.run(), name=f"sync {family.value}")
                    dataplane = self._dataplanes[family]
                    tasks.create_task(dataplane.watch(sync.lose), name=f"watch {family.value}")
                for flows in self._flows:
                    tasks.create_task(flows.run(), name="stale flows")
                tasks.create_task(self._after_first_sync(), name="after the first sync")
                self._follower.ready()
        except* _Initialised:
            klog.info("System initialized and --init-only specified")
        except* KubeProxyError as group:
            raise _first(group) from None
        finally:
            for dataplane in self._dataplanes.values():
                await dataplane.close()

    async def _after_first_sync(self) -> None:
        if self._setup.after_first_sync is None:
            return
        syncs = self.syncs.values()
        while any(sync.progress.full_ended is None for sync in syncs):  # noqa: ASYNC110  # no hurry
            await asyncio.sleep(FIRST_SYNC_POLL)
        await asyncio.to_thread(self._setup.after_first_sync)

    def _family_sync(self, family: Family) -> FamilySync:
        config = self._setup.config
        mode = Mode(config.mode)
        retry = config.sync_period.seconds
        schedule = Schedule(
            min_period=config.min_sync_period.seconds,
            retry_period=retry,
            full_period=retry if mode is Mode.IPVS else FULL_SYNC_PERIOD,
        )
        dataplane = self._dataplanes[family] = self._setup.dataplane(family)
        flows = StaleFlows(family, self._tell) if self._setup.cleans_flows else None
        if flows is not None:
            self._flows.append(flows)
        return FamilySync(
            self._cluster,
            family,
            Outlet(dataplane, flows, self._tell),
            schedule,
            lambda: self._setting(family),
        )

    def _setting(self, family: Family) -> Setting:
        """This node as it is now."""
        if family not in self._addresses:
            self._addresses[family] = interface_addresses(family)
        ips = self._node_ips()
        around = Surroundings(
            node=self._cluster.node,
            ips=ips,
            addresses=self._addresses[family],
            service_cidrs=self._cluster.service_cidrs(family),
        )
        node = node_view(self._setup.config, self._setup.gates, family, around)
        balance = Balance(self._setup.config.nftables.balance)
        return Setting(node, Vantage(self._cluster.place, ips.known_ip(family), balance))

    def _node_ips(self) -> NodeIPs:
        return node_ips(self._cluster.node, self._setup.config.bind_address)

    def _addresses_changed(self) -> None:
        self._addresses.clear()
        for sync in self.syncs.values():
            sync.request()

    async def _watch_config(self) -> None:
        await wait_content_changed(self._setup.config_file, self._setup.config_content)
        raise RestartNeeded("content of the proxy server's configuration file was updated")

    async def _wait_node(self) -> None:
        """Wait for our addresses, and for pod ranges where they are needed; then look at both."""
        name = self._setup.node_name
        if not await self._wait(lambda node: bool(node.ips), NODE_IP_WAIT):
            what = "be assigned IPs" if self._cluster.node else "exist"
            klog.error(f"Timed out waiting for node to {what}", node=name)
        by_node_cidr = self._setup.config.detect_local_mode == LocalMode.NODE_CIDR.value
        if by_node_cidr and not await self._wait(lambda n: bool(n.pod_cidrs), POD_CIDR_WAIT):
            if self._cluster.node is None:
                raise OperatorError(f'timeout waiting for node "{name}" to exist')
            raise OperatorError(f'timeout waiting for PodCIDR allocation on node "{name}"')
        self._at_start = self._cluster.node
        self._started = True
        self._check_node_facts()

    async def _wait_service_cidrs(self) -> None:
        """Give the service ranges a moment: without them the first sync would take them away.

        Not longer, because older API servers have none to tell of.
        """
        try:
            async with asyncio.timeout(SERVICE_CIDR_WAIT):
                while not self._cluster.synced(Kind.SERVICE_CIDR):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            klog.info("ServiceCIDRs are not known yet, going on without", v=2)

    async def _wait(self, satisfied: Callable[[NodeState], bool], seconds: float) -> bool:
        """Wait until our Node satisfies; where nobody makes it, only until Nodes are told."""

        def done() -> bool:
            node = self._cluster.node
            given_up = not self._setup.waits_for_node and self._cluster.synced(Kind.NODE)
            return given_up or (node is not None and satisfied(node))

        try:
            async with asyncio.timeout(seconds):
                while not done():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return False
        node = self._cluster.node
        return not self._setup.waits_for_node or (node is not None and satisfied(node))

    def _check_node_facts(self) -> None:
        """Compare the configuration with what is known of this node now."""
        ips = self._node_ips()
        families = self._setup.families
        if ips.primary not in families:
            raise OperatorError(f'no support for primary IP family "{ips.primary.value}"')
        if not ips.known:
            klog.info(
                "Can't determine this node's IP, assuming loopback; if this is incorrect, please"
                " set the --bind-address flag"
            )
        node = self._cluster.node
        facts = NodeFacts(
            primary=ips.primary,
            node_ips=ips.ips,
            pod_cidrs=node.pod_cidrs if node else (),
            dual_stack=len(families) > 1,
        )
        for notice in node_port_warnings(self._setup.config, facts):
            tell(notice)
        if facts.dual_stack:
            klog.info("kube-proxy running in dual-stack mode", primary=ips.primary.value)
        else:
            klog.info("kube-proxy running in single-stack mode", ipFamily=ips.primary.value)
        for notice in family_warnings(self._setup.config, facts):
            tell(notice)

    def _told_news(self) -> None:
        """Our Node came, changed or went, or a kind is known."""
        self._news.set()
        if self._started:
            reason = restart_reason(self._at_start, self._cluster.node, self._setup.config)
            if reason:
                raise RestartNeeded(f'node "{self._setup.node_name}": {reason}')


def restart_reason(
    before: NodeState | None, now: NodeState | None, config: KubeProxyConfiguration
) -> str:
    """Why a changed Node calls for a restart; "" when it does not."""
    if now is None:
        return "" if before is None else "it is being deleted"
    old_ips = primary_ips(before) if before else ()
    if old_ips != primary_ips(now):
        return f"its IPs changed from {list(old_ips)} to {list(primary_ips(now))}"
    old_cidrs = before.pod_cidrs if before else ()
    by_node_cidr = config.detect_local_mode == LocalMode.NODE_CIDR.value
    if by_node_cidr and old_cidrs != now.pod_cidrs:
        return f"its pod CIDRs changed from {list(old_cidrs)} to {list(now.pod_cidrs)}"
    return ""


def _first(group: BaseExceptionGroup[KubeProxyError]) -> KubeProxyError:
    """The first exception of a group, however deep."""
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
