"""Feature gates: which there are, and which are on.

Only gates that mean something to kube-proxy are known; any other name is an error, as a
misspelling is. None of them depends on another.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

import msgspec

from kubeproxy.config.errors import ConfigError, Level, Notice, closest, joined


class GateStage(Enum):
    """How far a feature has come."""

    ALPHA = "alpha"
    BETA = "beta"
    GA = "GA"
    DEPRECATED = "deprecated"


class Gate(msgspec.Struct, frozen=True):
    """One gate; a locked one cannot be moved from its default."""

    stage: GateStage
    default: bool
    locked: bool = False


KUBE_PROXY_IPVS: Final = "KubeProxyIPVS"
NFTABLES_LOCALHOST_NODE_PORTS: Final = "KubeProxyNFTablesLocalhostNodePorts"
ALLOW_SERVICE_EXTERNAL_IPS: Final = "AllowServiceExternalIPs"
LOGGING_ALPHA_OPTIONS: Final = "LoggingAlphaOptions"
LOGGING_BETA_OPTIONS: Final = "LoggingBetaOptions"

GATES: Final[Mapping[str, Gate]] = {
    ALLOW_SERVICE_EXTERNAL_IPS: Gate(GateStage.GA, default=True),
    "ClientsAllowCARotation": Gate(GateStage.BETA, default=True),
    "ClientsAllowCBOR": Gate(GateStage.ALPHA, default=False),
    "ClientsAllowTLSCacheGC": Gate(GateStage.BETA, default=True),
    "ClientsPreferCBOR": Gate(GateStage.ALPHA, default=False),
    "ComponentFlagz": Gate(GateStage.BETA, default=True),
    "ComponentStatusz": Gate(GateStage.BETA, default=True),
    "ContextualLogging": Gate(GateStage.BETA, default=True),
    KUBE_PROXY_IPVS: Gate(GateStage.DEPRECATED, default=True),
    NFTABLES_LOCALHOST_NODE_PORTS: Gate(GateStage.ALPHA, default=False),
    LOGGING_ALPHA_OPTIONS: Gate(GateStage.ALPHA, default=False),
    LOGGING_BETA_OPTIONS: Gate(GateStage.BETA, default=True),
    "MultiCIDRServiceAllocator": Gate(GateStage.GA, default=True, locked=True),
    "NFTablesNetlink": Gate(GateStage.BETA, default=True),
    "NFTablesProxyMode": Gate(GateStage.GA, default=True, locked=True),
    "NativeHistograms": Gate(GateStage.BETA, default=True),
    "PreferSameTrafficDistribution": Gate(GateStage.GA, default=True, locked=True),
    "WatchListClient": Gate(GateStage.BETA, default=True),
    "WinDSR": Gate(GateStage.GA, default=True),
    "WinOverlay": Gate(GateStage.GA, default=True),
}

# Each moves all gates of a stage that are not set by name.
_BULK: Final = {"AllAlpha": GateStage.ALPHA, "AllBeta": GateStage.BETA}

GATE_NAMES: Final = tuple(sorted((*GATES, *_BULK)))


class Gates(msgspec.Struct, frozen=True):
    """The state of all gates."""

    on: frozenset[str] = frozenset(name for name, gate in GATES.items() if gate.default)

    def enabled(self, name: str) -> bool:
        """Whether a gate is on."""
        return name in self.on


def resolve(given: Mapping[str, bool]) -> tuple[Gates, tuple[Notice, ...]]:
    """The state of all gates when these are set; raises ConfigError for what cannot be set."""
    problems = [problem for name in sorted(given) if (problem := _problem(name, given[name]))]
    if problems:
        raise ConfigError(joined(problems))
    bulk = {stage: given[name] for name, stage in _BULK.items() if name in given}
    on = {
        name for name, gate in GATES.items() if given.get(name, bulk.get(gate.stage, gate.default))
    }
    notices = (_notice(name, given[name]) for name in sorted(given) if name in GATES)
    return Gates(frozenset(on)), tuple(notice for notice in notices if notice)


def _problem(name: str, value: bool) -> str:  # noqa: FBT001  # the value of the gate, as in the map
    """Why a gate cannot be set like that; empty when it can."""
    gate = GATES.get(name)
    if gate is None and name not in _BULK:
        meant = closest(name, GATE_NAMES)
        return f"unrecognized feature gate: {name}" + (
            f" (did you mean {meant}?)" if meant else ""
        )
    if gate is not None and gate.locked and gate.default != value:
        wanted, locked = str(value).lower(), str(gate.default).lower()
        return f"cannot set feature gate {name} to {wanted}, feature is locked to {locked}"
    return ""


def _notice(name: str, value: bool) -> Notice | None:  # noqa: FBT001  # as above
    """The notice about setting a gate that will go away."""
    stage = GATES[name].stage
    if stage not in (GateStage.GA, GateStage.DEPRECATED):
        return None
    text = f"Warning: setting {stage.value} feature gate. It will be removed in a future release."
    return Notice(Level.INFO, text, {"featureGate": name, "value": value})
