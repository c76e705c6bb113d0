"""What packets need besides rules, and what is known of this node: a value at one moment."""

from collections.abc import Mapping

import msgspec

from kubeproxy.base.conntracktable import ConntrackUse, Lost
from kubeproxy.base.inet import Family


class Surroundings(msgspec.Struct, frozen=True):
    """What packets need besides rules, and what is known of this node.

    `conntrack` is None where connections are not tracked; `lost` is of the last minute.
    `not_forwarded` are families that have Services, and of which the kernel forwards no packets;
    `missing_addresses` are those of our Node that no interface has. `no_node` says that the API
    server has no Node of our name, `silence` for how long nothing has come from it: None where
    that says nothing. `waiting` is what of our Node is waited for before the first sync, and for
    how many seconds.
    """

    conntrack: ConntrackUse | None = None
    lost: Lost = Lost()
    not_forwarded: frozenset[Family] = frozenset()
    missing_addresses: Mapping[Family, str] = {}
    no_node: bool = False
    silence: float | None = None
    waiting: tuple[str, float] | None = None
