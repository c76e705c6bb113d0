"""The names of what is in the table: its sets, maps, counters and fixed chains.

The table's name is upstream's, and no name in it is one that a release of upstream has. When an
operator goes back, upstream works on in this table: what it makes, empties, deletes or declares in
another way is then never ours, and nothing that we leave behind refers to it.
"""

from kubeproxy.base.inet import Protocol

TABLE = "kube-proxy"
COMMENT = "rules for kube-proxy"
CLUSTER_IPS = "cluster-ips-in-use"
NODEPORT_ADDRESSES = "nodeport-addresses"
SERVICE_CIDRS = "service-cidrs"
SERVICE_CHOICES = "service-choices"
NODEPORT_CHOICES = "nodeport-choices"
CHOICE_CHAINS = "choice-chains"
SERVICE_ENDPOINTS = "service-endpoints"
SERVICE_LOCAL_ENDPOINTS = "service-local-endpoints"
NODEPORT_ENDPOINTS = "nodeport-endpoints"
NODEPORT_LOCAL_ENDPOINTS = "nodeport-local-endpoints"
SERVICE_CONNECTIONS = "service-connections"
NODEPORT_CONNECTIONS = "nodeport-connections"
SERVICE_REFUSALS = "service-refusals"
NODEPORT_REFUSALS = "nodeport-refusals"
SERVICE_DROPS = "service-drops"
NODEPORT_DROPS = "nodeport-drops"
FIREWALL_IPS = "firewall-services"
FIREWALL_SOURCES = "firewall-sources"
HAIRPINS = "hairpins"
AFFINITY = "affinity"
LOCAL_AFFINITY = "local-affinity"
SHARED_AFFINITY = "shared-affinity"
SHARED_LOCAL_AFFINITY = "shared-local-affinity"
SERVICE_AFFINITY = "service-affinity"
NODEPORT_AFFINITY = "nodeport-affinity"
REMEMBER_SERVICES = "remember-services"
REMEMBER_NODEPORTS = "remember-nodeports"
REMEMBER_CHAINS = "remember-chains"
LOCALHOST_NODEPORTS = "localhost-nodeports"

PINS = {False: AFFINITY, True: LOCAL_AFFINITY}
SHARED_PINS = {False: SHARED_AFFINITY, True: SHARED_LOCAL_AFFINITY}
"""Where clients are remembered, by whether the choice was among endpoints of this node."""

LISTS = {
    (False, False): SERVICE_ENDPOINTS,
    (False, True): SERVICE_LOCAL_ENDPOINTS,
    (True, False): NODEPORT_ENDPOINTS,
    (True, True): NODEPORT_LOCAL_ENDPOINTS,
}
"""The maps with the lists of endpoints: of node ports or not, of this node or all."""

PINNED = {
    (False, False): "service-pinned-endpoints",
    (False, True): "service-local-pinned-endpoints",
    (True, False): "nodeport-pinned-endpoints",
    (True, True): "nodeport-local-pinned-endpoints",
}
"""The maps of the same endpoints by what pins say, where there is session affinity."""

RETRY_REFUSED = {False: "retry-refused-services", True: "retry-refused-nodeports"}
RETRY_UNANSWERED = {False: "retry-unanswered-services", True: "retry-unanswered-nodeports"}
RETRY_STICKY = {False: "retry-sticky-services", True: "retry-sticky-nodeports"}
RESET_GONE = {False: "reset-gone-services", True: "reset-gone-nodeports"}
"""The sets of frontends with each part of healing: of node ports or not.

Those whose unanswered connections are retried are in one of two, by their session affinity.
"""

REFUSED = "refused"
REFUSING = "refusing"
RETRIES = "retries"
ANSWERING = "answering"
ATTEMPTS = "attempts"
STICKY_ATTEMPTS = "sticky-attempts"
UNANSWERED = "unanswered"
GONE = "gone-endpoints"
GONE_ANY = "gone-any"
RESETS = "resets"
FILLED_BY_PACKETS = frozenset(
    {REFUSED, REFUSING, RETRIES, ANSWERING} | {ATTEMPTS, STICKY_ATTEMPTS, UNANSWERED, GONE, RESETS}
)
"""What packets leave behind for healing, see `healing`; and endpoints that have left."""
OF_HEALING = FILLED_BY_PACKETS.union(
    {GONE_ANY},
    *(each.values() for each in (RETRY_REFUSED, RETRY_UNANSWERED, RETRY_STICKY, RESET_GONE)),
)
"""The sets and maps of healing: they come and go while all others stay."""

CHAINS_OF_HEALING = frozenset(
    {
        *(f"filter/{hook}-healing" for hook in ("prerouting", "output")),
        *(f"nat/{hook}-healing" for hook in ("prerouting", "input", "output", "postrouting")),
        *("healing", "refused", "unreachable", "retry", "retry-again", "unpin", "forget-pin"),
        *("attempt", "watch-attempt", "watch-sticky", "unanswered"),
        *("reset-to-client", "gone", "reset-client"),
    }
)
"""The chains of healing, likewise."""

SYN_TIMEOUT = "unanswered-syn"
RETRIED = "refused-retried"
GIVEN_UP = "refused-given-up"
COUNTERS_OF_HEALING = (RETRIED, GIVEN_UP)
"""Connections that were refused, and what their clients were told: nothing, or that."""

FIRST_SLOT = 1
"""The place of the first endpoint in a list: nft would print 0 as `none`."""

CHOICES = {False: SERVICE_CHOICES, True: NODEPORT_CHOICES}
REMEMBERS = {False: REMEMBER_SERVICES, True: REMEMBER_NODEPORTS}
"""The maps with the numbers of choices: of node ports or not."""

NUMBERS = {False: SERVICE_AFFINITY, True: NODEPORT_AFFINITY}
"""The maps with the numbers of services that have session affinity: of node ports or not."""

RANGE_SETS = frozenset({SERVICE_CIDRS})
"""Sets in which a range is two elements, its beginning and its end.

Newer kernels (seen: 6.18.44) refuse to add or delete one without the other next to it, so these
sets are emptied and filled again, in one transaction, whenever they differ.
"""

REFUSE = "refuse"
MARK_TO_MASQUERADE = "mark-to-masquerade"

LOCALHOST_COUNTER = {protocol: f"localhost-{protocol.name.lower()}" for protocol in Protocol}

AFFINITY_FULL = "affinity-full"
"""Counts the clients that found no room in the map of their own."""

PINS_FROM = 1 << 31
"""Pins name endpoints by such numbers; all other numbers are smaller."""

SHARED_PLACES = 1024
"""When one service has filled the map, clients of others are remembered by a hash of their
address: each service has so many places of its own.
"""


def draw_chain(list_: str) -> str:
    """The chain that sends a packet to the endpoint in a place of its frontend's list."""
    return f"draw-from-{list_}"


def pinned_chain(*, node_port: bool, local: bool) -> str:
    """The chain that sends a packet to the endpoint that its client had before, if any."""
    return f"pinned-{'nodeport' if node_port else 'service'}{'-local' if local else ''}"


def follow_chain(*, node_port: bool, local: bool) -> str:
    """The chain that sends a packet where a pin says, if that can be chosen."""
    return f"follow-{pinned_chain(node_port=node_port, local=local)}"
