"""The status of the daemon as values: the JSON of `/status`, `/rules` and below.

The terminal commands decode what the daemon encodes, so both share these types. Fields are only
ever added. Times are RFC 3339 in UTC. Connections are None where the mode does not count them;
rates are None, too, until the counters were read twice.
"""

from collections.abc import Iterable, Iterator

import msgspec


def json_items(values: Iterable[msgspec.Struct]) -> Iterator[bytes]:
    """The values as items of a JSON list, one at a time."""
    for number, value in enumerate(values):
        yield (b"," if number else b"") + msgspec.json.encode(value)


class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    """A value that is sent as JSON."""


class FieldProblem(_Wire, frozen=True, omit_defaults=True):
    """Why a request has no answer, and which parameter is wrong, if it is one."""

    reason: str
    field: str = ""
    value: str = ""

    def __str__(self) -> str:
        return f"{self.field} {self.value}: {self.reason}" if self.field else self.reason


class Sync(_Wire, frozen=True):
    """One sync: when it ended, what it cost, and what it changed.

    `outcome` is ok, partly (some service ports were refused) or failed. `added`, `changed` and
    `removed` count service ports; `written` counts objects of the kernel.
    """

    ended: str
    seconds: float
    full: bool
    outcome: str
    added: int = 0
    changed: int = 0
    removed: int = 0
    written: int = 0


class NotProgrammed(_Wire, frozen=True):
    """A service port, `NAMESPACE/NAME[:PORT]`, that the kernel does not have, and why."""

    service_port: str
    protocol: str
    reason: str


class AddressConflict(_Wire, frozen=True):
    """An address that two service ports claim: the second is not served there."""

    address: str
    served_by: str
    not_served: str


class LeftOut(_Wire, frozen=True):
    """An endpoint of a service port that is left out because it fails, and is tried again then.

    So many `failures` of so many `clients` led to it; `times` in a row. `why` says it in words.
    """

    service_port: str
    protocol: str
    endpoint: str
    until: str
    reason: str
    failures: int
    clients: int
    times: int
    why: str


class ForeignChanges(_Wire, frozen=True):
    """Changes that others made to the rules, and that were repaired: `total` since the start.

    `of_late` counts those of the last minute, which were made within `seconds`. `program` and
    `pid` made the last one, `ago` seconds ago: "" and 0 when that is not known, None before the
    first.
    """

    total: int = 0
    of_late: int = 0
    seconds: float = 0.0
    ago: float | None = None
    program: str = ""
    pid: int = 0


class FamilyStatus(_Wire, frozen=True):
    """One IP family.

    `endpoints` counts those of every service port, whatever their state. `history` has the latest
    syncs, the oldest first. `waiting_seconds` is how long a change has been waiting for its sync;
    None when none is. `failure` is why the last sync failed; "" when it did not.

    `left_out` are the endpoints that are, because they fail; `at_ejection_limit` the service ports
    where one more should be. `failed_connections` counts those of the last minute; None in a mode
    that does not heal.

    `forwarded` is False when there are Services and the kernel forwards no packets between
    interfaces. `missing_address` is this
    node's address if no interface has it, and `without_endpoint` the service ports of which no
    endpoint can serve. `foreign_changes` are what others did to the rules.
    """

    ip_family: str
    healthy: bool
    services: int
    service_ports: int
    frontends: int
    endpoints: int
    syncs: int
    failures: int
    last_sync: Sync | None
    last_full_sync: Sync | None
    waiting_seconds: float | None
    not_programmed: tuple[NotProgrammed, ...]
    conflicts: tuple[AddressConflict, ...]
    history: tuple[Sync, ...]
    failure: str = ""
    left_out: tuple[LeftOut, ...] = ()
    at_ejection_limit: tuple[str, ...] = ()
    failed_connections: int | None = None
    forwarded: bool = True
    missing_address: str = ""
    without_endpoint: tuple[str, ...] = ()
    foreign_changes: ForeignChanges = ForeignChanges()


class SourceGap(_Wire, frozen=True):
    """Something that the source cannot read now, so that what is known of it may be stale.

    `seconds` is for how long; None where that is not known.
    """

    what: str
    reason: str
    seconds: float | None = None


class Ignored(_Wire, frozen=True):
    """A part of an object, `KIND NAMESPACE/NAME`, that is not valid and is ignored."""

    object: str
    reason: str


class ConntrackState(_Wire, frozen=True):
    """The kernel's table of tracked connections. What was lost is of the last minute."""

    entries: int
    limit: int
    insert_failures_of_late: int = 0
    drops_of_late: int = 0


class FastPathStatus(_Wire, frozen=True):
    """The path past the rules that established connections take after so many packets.

    `reason` is a word for why it is off, and `why_not` a sentence; both are "" when it is on.
    `connections` counts those that take it, by family. Those in `left_out` are devices that the
    kernel refuses.
    """

    wanted: bool
    on: bool
    reason: str
    why_not: str
    after_packets: int
    devices: tuple[str, ...]
    left_out: tuple[str, ...]
    connections: dict[str, int]


class DaemonStatus(_Wire, frozen=True):
    """The daemon as a whole. `/status`.

    `version` and `commit` are ours, `kubernetes_version` is the release that is followed.
    `node_eligible` says whether load balancers should use this node. `source` is where the
    cluster's state comes from, in words; `gaps` are what it cannot read now. `remains` says why
    rules of other modes are still in the kernel; it is empty when none are. `fast_path` is None in
    a mode without one.

    `conntrack` is None where connections are not tracked. `node_found` is False when the API
    server has no Node of our name. `source_silent_seconds` is for how long nothing has come from
    it; None where that says nothing. `waits_for` is what of our Node it waits for before its first
    sync; "" when it does not.
    """

    version: str
    commit: str
    kubernetes_version: str
    node: str
    mode: str
    pid: int
    started: str
    now: str
    uptime_seconds: float
    cpu_seconds: float
    memory_bytes: int
    source: str
    config_file: str
    health_address: str
    metrics_address: str
    healthy: bool
    node_eligible: bool
    counts_connections: bool
    families: tuple[FamilyStatus, ...]
    gaps: tuple[SourceGap, ...] = ()
    ignored: tuple[Ignored, ...] = ()
    remains: tuple[str, ...] = ()
    conntrack: ConntrackState | None = None
    node_found: bool = True
    source_silent_seconds: float | None = None
    fast_path: FastPathStatus | None = None
    waits_for: str = ""
    waits_seconds: float = 0.0


class ServiceSummary(_Wire, frozen=True):
    """One Service in a list.

    `addresses` are those that clients dial, cluster IPs first. `ports` are `[NAME:]PORT/PROTOCOL`,
    and `node_ports` their node ports. Endpoints are counted once for each port and family: all
    that slices name, and those that packets may be sent to.
    """

    namespace: str
    service: str
    addresses: tuple[str, ...]
    ports: tuple[str, ...]
    node_ports: tuple[int, ...]
    endpoints: int
    endpoints_used: int
    connections: int | None = None
    per_second: float | None = None
    problems: tuple[str, ...] = ()


class ServiceList(_Wire, frozen=True):
    """Services, by name or by connections. `/status/services`.

    `matching` are all that match the search; `services` may be fewer, because there is a limit.
    """

    mode: str
    total: int
    matching: int
    counts_connections: bool
    services: tuple[ServiceSummary, ...]


class FrontendDetail(_Wire, frozen=True):
    """An address of a service port. `kind` is cluster-ip, load-balancer, external-ip, node-port.

    The address is "" for a node port, which every node-port address of the node serves.
    """

    kind: str
    address: str
    port: int
    connections: int | None = None
    per_second: float | None = None


class EndpointDetail(_Wire, frozen=True):
    """An endpoint of a service port, used or not.

    `not_for_cluster` and `not_for_local` say why traffic under that policy is not sent to it: ""
    when it is. A policy that no frontend of the service port follows is None. `used` says whether
    any policy in force sends traffic there. `node` is "" when its slice does not name one.
    `left_out_until` is "" when it is not left out because it fails. `failures` says how often it
    has failed, as far as that is counted: `refused`, `unanswered`, `gone`.
    """

    address: str
    port: int
    node: str
    on_this_node: bool
    ready: bool
    serving: bool
    terminating: bool
    used: bool
    not_for_cluster: str | None = None
    not_for_local: str | None = None
    connections: int | None = None
    per_second: float | None = None
    left_out_until: str = ""
    failures: dict[str, int] = {}


class PortDetail(_Wire, frozen=True):
    """One service port in one family. `source_ranges` is None when every source is allowed.

    `healing` has the parts that are in force, "" when nothing asks for any; `healing_by` is
    `annotation` or `configuration`, and `not_healed` says why nothing is done though it was asked.
    """

    name: str
    protocol: str
    ip_family: str
    frontends: tuple[FrontendDetail, ...]
    endpoints: tuple[EndpointDetail, ...]
    internal_traffic_policy: str
    external_traffic_policy: str = ""
    affinity_seconds: int = 0
    source_ranges: tuple[str, ...] | None = None
    balance: str = ""
    health_check_port: int = 0
    not_programmed: str = ""
    conflicts: tuple[AddressConflict, ...] = ()
    healing: str = ""
    healing_by: str = ""
    not_healed: str = ""


class ServiceDetail(_Wire, frozen=True):
    """All that is known of a Service. `/status/services/NAMESPACE/NAME`."""

    mode: str
    node: str
    namespace: str
    service: str
    counts_connections: bool
    ports: tuple[PortDetail, ...]


class ServiceRates(_Wire, frozen=True):
    """Connections per second, of those Services that have any. `/status/rates`.

    Services are `NAMESPACE/NAME`. `seconds` is the time over which they were counted; 0 when the
    counters were not read twice yet.
    """

    now: str
    seconds: float
    services: dict[str, float]


class FailedConnections(_Wire, frozen=True):
    """Connections of a client that an endpoint failed: so many `times` since the last reading.

    `reason` is `refused` or `unanswered`: these are retried; or `gone`: it was open, and is reset.
    `client` is an address, `destination` what it dialled. `endpoint` is "" when it is not known.
    """

    number: int
    time: str
    service_port: str
    protocol: str
    ip_family: str
    client: str
    destination: str
    endpoint: str
    reason: str
    times: int


class FailureList(_Wire, frozen=True):
    """The latest failures, the oldest first. `/status/failures`.

    `started` is when the daemon did: the numbers begin again then. `last` is the last number, and
    `missed` are newer than what was asked for and not kept any more. `heals` is whether the mode
    heals; there are none if not.
    """

    heals: bool
    started: str
    last: int
    missed: int
    failures: tuple[FailedConnections, ...]


class RuleFrontend(_Wire, frozen=True, omit_defaults=True):
    """A frontend; the address is absent for a node port, which all node-port addresses serve."""

    kind: str
    port: int
    address: str = ""


class RuleRow(_Wire, frozen=True):
    """What clients of a frontend get, as a row of the table says it."""

    frontend: str
    source: str
    backends: str
    masquerade: str
    refusal: str


class RulePort(_Wire, frozen=True, omit_defaults=True):
    """One service port in one family, as it is programmed. `/rules`.

    What is absent does not concern it.
    """

    namespace: str
    service: str
    protocol: str
    ip_family: str
    frontends: tuple[RuleFrontend, ...]
    internal_traffic_policy: str
    rows: tuple[RuleRow, ...]
    port: str = ""
    endpoints: tuple[str, ...] = ()
    local_endpoints: tuple[str, ...] = ()
    external_traffic_policy: str = ""
    affinity_seconds: int = 0
    source_ranges: tuple[str, ...] | None = None
    balance: str = ""
    not_programmed: str = ""


class WrittenRules(_Wire, frozen=True):
    """What one family's dataplane wrote for some service ports, as the kernel's tools print it."""

    ip_family: str
    mode: str
    text: str
