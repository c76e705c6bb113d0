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
    problems: list[str] = []
    notices: list[Notice] = []
    for name, value in sorted(given.items()):
        gate = GATES.get(name)
        if gate is None:
            if name not in _BULK:
                meant = closest(name, GATE_NAMES)
                hint = f" (did you mean {meant}?)" if meant else ""
                problems.append(f"unrecognized feature gate: {name}{hint}")
        elif gate.locked and gate.default != value:
            wanted, locked = str(value).lower(), str(gate.default).lower()
            problems.append(
                f"cannot set feature gate {name} to {wanted}, feature is locked to {locked}"
            )
        elif gate.stage in (GateStage.GA, GateStage.DEPRECATED):
            stage = gate.stage.value
            text = (
                f"Warning: setting {stage} feature gate. It will be removed in a future release."
            )
            notices.append(Notice(Level.INFO, text, {"featureGate": name, "value": value}))
    if problems:
        raise ConfigError(joined(problems))
    bulk = {stage: given[name] for name, stage in _BULK.items() if name in given}
    on = {
        name for name, gate in GATES.items() if given.get(name, bulk.get(gate.stage, gate.default))
    }
    return Gates(frozenset(on)), tuple(notices)
