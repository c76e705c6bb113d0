"""One thing that was looked at, and how it is."""

from enum import Enum

import msgspec

from kubeproxy.table.node import Mode


class State(Enum):
    """How it is. Only what is missing keeps a mode from working."""

    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"
    UNKNOWN = "unknown"


class Topic(Enum):
    """What a finding is about, in the order of the report."""

    NODE = "node"
    NFTABLES = "nftables"
    PROGRAMS = "programs"
    IPTABLES = "iptables"
    IPVS = "ipvs"
    RIVALS = "rivals"
    PORTS = "ports"


ALL_MODES = tuple(Mode)

_MODES = {
    Topic.NFTABLES: (Mode.NFTABLES,),
    Topic.PROGRAMS: (Mode.IPTABLES, Mode.IPVS),
    Topic.IPTABLES: (Mode.IPTABLES,),
    Topic.IPVS: (Mode.IPVS,),
}


class Finding(msgspec.Struct, frozen=True):
    """What was looked at, how it is, and what to do about it.

    `modes` are those that it matters for; a finding of no mode is dropped.
    """

    topic: Topic
    what: str
    state: State
    detail: str = ""
    remedy: str = ""
    modes: tuple[Mode, ...] = ALL_MODES


def ok(topic: Topic, what: str, detail: str = "") -> Finding:
    """It is as it should be."""
    return Finding(topic, what, State.OK, detail, modes=modes_of(topic))


def lacking(
    topic: Topic, what: str, detail: str, remedy: str, state: State = State.MISSING
) -> Finding:
    """It is not as it should be, or cannot be seen."""
    return Finding(topic, what, state, detail, remedy, modes_of(topic))


def modes_of(topic: Topic) -> tuple[Mode, ...]:
    """The modes that a topic matters for, unless a finding says otherwise."""
    return _MODES.get(topic, ALL_MODES)
