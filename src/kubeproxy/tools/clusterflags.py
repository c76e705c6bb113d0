"""The flags by which a command names a cluster, a node, and the settings of a proxy."""

from typing import Final

from msgspec.structs import replace

from kubeproxy.config.flags import FLAGS
from kubeproxy.config.flagset import Flag
from kubeproxy.config.kinds import STRING

# The daemon's flags that change a verdict, or say where the cluster's state comes from.
_SHARED: Final = frozenset(
    {
        *("config", "feature-gates", "help", "kubeconfig", "manifests", "master", "proxy-mode"),
        *("bind-address", "cluster-cidr", "detect-local-mode", "iptables-localhost-nodeports"),
        *("masquerade-all", "nodeport-addresses"),
        *("pod-bridge-interface", "pod-interface-name-prefix"),
    }
)
_GROUP: Final = "Cluster and proxy"
SHARED_FLAGS: Final = tuple(replace(flag, group=_GROUP) for flag in FLAGS if flag.name in _SHARED)
_NODE: Final = Flag("node", STRING, "", "The node to look from; default: this host.", _GROUP)
WITHOUT_DAEMON: Final = (_NODE, *FLAGS)
"""What a command takes that may do without a daemon, besides its own flags and the client's."""
LISTED: Final = (_NODE, *SHARED_FLAGS)
"""Those that its usage text names."""
NAMES_CLUSTER: Final = frozenset(each.name for each in LISTED) - {"help"}
