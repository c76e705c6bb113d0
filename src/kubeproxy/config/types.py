"""KubeProxyConfiguration, `kubeproxy.config.k8s.io/v1alpha1`: every field, as frozen values.

The names are those of the file (in camel case), as the upstream documentation has
them. The default of a field is the value that it has when it is absent; what else
defaulting does is in `defaults`. The types of fields are what `decode` reads them by.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec.structs import replace

from kubeproxy.config.values import Duration, Quantity, of_milliseconds, of_seconds

API_VERSION: Final = "kubeproxy.config.k8s.io/v1alpha1"
KIND: Final = "KubeProxyConfiguration"

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
UInt32 = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Strings = tuple[str, ...]

T = TypeVar("T", bound=msgspec.Struct)


def put(struct: T, path: str, value: object) -> T:
    """The structure with another value at a path of attributes, such as `ipvs.strict_arp`."""
    name, _, rest = path.partition(".")
    inner = put(getattr(struct, name), rest, value) if rest else value
    return replace(struct, **{name: inner})


class LocalMode(Enum):
    """How traffic of local pods is recognised."""

    CLUSTER_CIDR = "ClusterCIDR"
    NODE_CIDR = "NodeCIDR"
    BRIDGE_INTERFACE = "BridgeInterface"
    INTERFACE_NAME_PREFIX = "InterfaceNamePrefix"


class ClientConnection(msgspec.Struct, frozen=True, rename="camel"):
    """`clientConnection`: how to talk to the API server."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 5.0
    burst: Int32 = 10


class VModuleItem(msgspec.Struct, frozen=True, rename="camel"):
    """One entry of `logging.vmodule`: the verbosity of the files that the pattern names."""

    file_pattern: str = ""
    verbosity: UInt32 = 0


class OutputRouting(msgspec.Struct, frozen=True, rename="camel"):
    """`logging.options.text` or `.json`: where lines go."""

    split_stream: bool = False
    info_buffer_size: Quantity = Quantity()


class FormatOptions(msgspec.Struct, frozen=True):
    """`logging.options`."""

    text: OutputRouting = OutputRouting()
    json: OutputRouting = OutputRouting()


class Logging(msgspec.Struct, frozen=True, rename="camel"):
    """`logging`."""

    format: str = "text"
    flush_frequency: Duration | Int64 = of_seconds(5)
    """A bare number in a file counts nanoseconds, and is written back as one."""
    verbosity: UInt32 = 0
    vmodule: tuple[VModuleItem, ...] = ()
    options: FormatOptions = FormatOptions()

    @property
    def flush_period(self) -> Duration:
        """How long a buffered line may wait."""
        frequency = self.flush_frequency
        return Duration(frequency) if isinstance(frequency, int) else frequency


class IPTables(msgspec.Struct, frozen=True, rename="camel"):
    """`iptables`; the masquerade fields serve ipvs mode too."""

    masquerade_bit: Int32 = 14
    masquerade_all: bool = False
    localhost_node_ports: bool = True
    sync_period: Duration = of_seconds(30)
    min_sync_period: Duration = of_seconds(1)


class IPVS(msgspec.Struct, frozen=True, rename="camel"):
    """`ipvs`; a timeout of zero leaves the kernel's alone."""

    sync_period: Duration = of_seconds(30)
    min_sync_period: Duration = Duration()
    scheduler: str = ""
    exclude_cidrs: Strings = msgspec.field(name="excludeCIDRs", default=())
    strict_arp: bool = msgspec.field(name="strictARP", default=False)
    tcp_timeout: Duration = Duration()
    tcp_fin_timeout: Duration = Duration()
    udp_timeout: Duration = Duration()


class HealingSettings(msgspec.Struct, frozen=True, rename="camel"):
    """`nftables.healing`, ours: connections to endpoints that fail."""

    parts: str = "none"
    """What is done, unless the Service has the annotation; the words are in `base.healing`."""
    retries: Int32 = 3
    """How often a refused connection is retried at most."""
    gone_timeout: Duration = of_seconds(900)
    """For so long after an endpoint left, packets to it are answered with a reset."""
    ejection_failures: Int32 = 3
    """So many failures within the interval leave an endpoint out, if two clients saw them; one
    client alone has to see three times as many."""
    ejection_interval: Duration = of_seconds(10)
    ejection_time: Duration = of_seconds(5)
    """For so long it is left out at first, and twice as long whenever it fails again."""
    max_ejection_time: Duration = of_seconds(120)
    max_ejected_percent: Int32 = 50
    """How many of the endpoints of a service port may be left out; never the last one."""


class FastPathSettings(msgspec.Struct, frozen=True, rename="camel"):
    """`nftables.fastPath`, ours: established connections leave the rules."""

    enabled: bool = False
    after_packets: Int32 = 20
    """So many packets of the client, and those of its endpoint meanwhile, meet the rules."""
    interfaces: Strings = ()
    """Patterns of the names of network devices that take part; none are the usual devices."""


class NFTables(msgspec.Struct, frozen=True, rename="camel"):
    """`nftables`."""

    masquerade_bit: Int32 = 14
    masquerade_all: bool = False
    sync_period: Duration = of_seconds(30)
    min_sync_period: Duration = of_seconds(1)
    balance: str = "random"
    """Ours: how an endpoint is chosen, unless the Service has the annotation."""
    endpoint_counters: bool = False
    """Ours: count connections per endpoint as well."""
    affinity_size: Int32 = 65535
    """Ours: how many clients have a pin of their own, of all services with session affinity."""
    healing: HealingSettings = HealingSettings()
    fast_path: FastPathSettings = FastPathSettings()


class Userspace(msgspec.Struct, frozen=True, rename="camel"):
    """`userspace`, ours: the mode's other settings are `udpIdleTimeout` and `portRange`."""

    workers: Int32 = 1
    """How many processes relay, for each IP family."""
    port_map: Strings = ()
    """Places on this machine that lead to Services, for where no rules can be written."""


class Winkernel(msgspec.Struct, frozen=True, rename="camel"):
    """`winkernel`: read, so that a file made for both systems is no error; never used."""

    network_name: str = ""
    source_vip: str = ""
    enable_dsr: bool = msgspec.field(name="enableDSR", default=False)
    root_hns_endpoint_name: str = ""
    forward_health_check_vip: bool = False


class DetectLocal(msgspec.Struct, frozen=True, rename="camel"):
    """`detectLocal`: the names that two of the local modes need."""

    bridge_interface: str = ""
    interface_name_prefix: str = ""


class Conntrack(msgspec.Struct, frozen=True, rename="camel"):
    """`conntrack`: sysctls; zero and false leave the kernel's value alone."""

    max_per_core: Int32 = 32 * 1024
    min: Int32 = 128 * 1024
    tcp_established_timeout: Duration = of_seconds(24 * 3600)
    tcp_close_wait_timeout: Duration = of_seconds(3600)
    tcp_be_liberal: bool = False
    udp_timeout: Duration = Duration()
    udp_stream_timeout: Duration = Duration()


class TrafficSettings(msgspec.Struct, frozen=True, rename="camel"):
    """`traffic`, ours: the metrics of connections."""

    metrics: str = "frontend"
    """How fine they are: frontend, service or none."""
    series_limit: Int32 = 10_000
    """How many series each of them may have; zero is no limit."""


# The sections of modes, each with the one that has its masquerade fields.
SECTIONS: Final = {"iptables": "iptables", "ipvs": "iptables", "nftables": "nftables"}


class KubeProxyConfiguration(msgspec.Struct, frozen=True, rename="camel"):
    """The whole of it; made without arguments, the configuration of an empty file."""

    feature_gates: Mapping[str, bool] = {}
    client_connection: ClientConnection = ClientConnection()
    logging: Logging = Logging()
    hostname_override: str = ""
    bind_address: str = ""
    healthz_bind_address: str = ""
    metrics_bind_address: str = ""
    bind_address_hard_fail: bool = False
    enable_profiling: bool = False
    show_hidden_metrics_for_version: str = ""
    mode: str = ""
    iptables: IPTables = IPTables()
    ipvs: IPVS = IPVS()
    nftables: NFTables = NFTables()
    winkernel: Winkernel = Winkernel()
    detect_local_mode: str = ""
    detect_local: DetectLocal = DetectLocal()
    cluster_cidr: str = msgspec.field(name="clusterCIDR", default="")
    node_port_addresses: Strings = ()
    oom_score_adj: Int32 = -999
    conntrack: Conntrack = Conntrack()
    config_sync_period: Duration = of_seconds(15 * 60)
    port_range: str = ""
    """The ports that listeners of userspace mode may have; any when it is empty."""
    udp_idle_timeout: Duration = of_milliseconds(250)
    """How long userspace mode knows a client of UDP that sends and gets nothing."""
    userspace: Userspace = Userspace()
    windows_run_as_service: bool = False
    traffic: TrafficSettings = TrafficSettings()
    rules_page: str = "local"
    """Ours: who may read the rules on the metrics server: local, all or none."""
    status_page: str = "local"
    """Ours: who may read the status page on the metrics server: local, all or none."""
    status_socket: str = "/run/kube-proxy/status.sock"
    """Ours: the Unix socket on which root and our own user may ask; none when it is empty."""

    @property
    def section(self) -> str:
        """The section of the active mode; a mode that has none uses nftables."""
        return self.mode if self.mode in SECTIONS else "nftables"

    @property
    def sync_period(self) -> Duration:
        """The sync period of the active mode."""
        period: Duration = getattr(self, self.section).sync_period
        return period

    @property
    def min_sync_period(self) -> Duration:
        """The least time between two syncs in the active mode."""
        period: Duration = getattr(self, self.section).min_sync_period
        return period

    @property
    def masquerade_bit(self) -> int:
        """The bit of the packet mark that asks for masquerading in the active mode."""
        bit: int = getattr(self, SECTIONS[self.section]).masquerade_bit
        return bit

    @property
    def masquerade_all(self) -> bool:
        """Whether all traffic to cluster IPs is masqueraded in the active mode."""
        is_on: bool = getattr(self, SECTIONS[self.section]).masquerade_all
        return is_on

    @property
    def cluster_cidrs(self) -> Strings:
        """The parts of `clusterCIDR`, untrimmed."""
        return tuple(self.cluster_cidr.split(",")) if self.cluster_cidr else ()
