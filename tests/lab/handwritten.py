"""A programmer without a proxy: rules written by hand, to try the lab itself."""

import signal
from collections.abc import Sequence

from lab.namespaces import Namespace
from lab.programmer import Documents

RULES = """
table ip hand {
    chain services {
        ip daddr 10.112.0.21 tcp dport 80 ip saddr != 10.64.0.0/14 meta mark set 0x4000
        ip daddr 10.112.0.21 tcp dport 80 dnat to numgen random mod 2 map {
            0 : 10.64.3.11 . 8080, 1 : 10.65.7.21 . 8080
        }
    }
    chain nat-prerouting {
        type nat hook prerouting priority dstnat
        jump services
    }
    chain nat-output {
        type nat hook output priority -100
        jump services
    }
    chain nat-postrouting {
        type nat hook postrouting priority srcnat
        meta mark 0x4000 masquerade fully-random
        ct status dnat ip saddr 10.64.3.11 ip daddr 10.64.3.11 masquerade fully-random
    }
    chain check {
        ip daddr 10.112.0.21 reject with icmp port-unreachable
        ip daddr 10.112.0.0/16 drop
    }
    chain filter-forward {
        type filter hook forward priority filter
        ct state new jump check
    }
    chain filter-output {
        type filter hook output priority filter
        ct state new jump check
    }
}
"""
"""The cluster IP 10.112.0.21:80 with the endpoints L1 and R1, as nftables mode would have it."""


class HandWritten:
    """Loads a rule set, whatever the documents say."""

    def __init__(self, node: Namespace, rules: str = RULES) -> None:
        self._node = node
        self._rules = rules

    def start(self, _flags: Sequence[str], _documents: Documents) -> None:
        """Load the rules."""
        self._node.run(["nft", "-f", "-"], stdin=self._rules)

    def put(self, _documents: Documents) -> None:
        """Leave them as they are."""

    def stop(self, _number: signal.Signals = signal.SIGTERM) -> None:
        """Nothing runs."""

    def said(self) -> str:
        """Nothing."""
        return ""
