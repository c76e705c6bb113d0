"""What this program is: its version, its feature gates, and how many families it shows."""

import os
import sys
from collections import Counter
from collections.abc import Iterator

from kubeproxy.base.version import KUBERNETES_VERSION, VERSION
from kubeproxy.config.gates import GATES, Gates, Stage
from kubeproxy.serve.metrics.families import About, Kind, Reading
from kubeproxy.serve.metrics.registry import Registry
from kubeproxy.serve.zpages import python_version

_Series = Iterator[tuple[tuple[str, ...], float]]
_STAGE = {Stage.ALPHA: "ALPHA", Stage.BETA: "BETA", Stage.GA: "", Stage.DEPRECATED: "DEPRECATED"}
_ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}
# What stands empty is what Go's toolchain knows of a build.
_BUILD = (
    "build_date",
    "compiler",
    "git_commit",
    "git_tree_state",
    "git_version",
    "go_version",
    "major",
    "minor",
    "platform",
)


def program_families(registry: Registry, gates: Gates) -> list[Reading]:
    """The families about the program itself."""
    return [
        Reading(
            About(
                "kubernetes_build_info",
                Kind.GAUGE,
                "[BETA] The Kubernetes release whose behaviour is followed; always 1",
                _BUILD,
            ),
            lambda: iter([(_build(), 1)]),
        ),
        Reading(
            About(
                "kubeproxy_build_info",
                Kind.GAUGE,
                "The version of this program; always 1",
                ("version",),
            ),
            lambda: iter([((VERSION,), 1)]),
        ),
        Reading(
            About(
                "kubernetes_feature_enabled",
                Kind.GAUGE,
                "[BETA] Whether a feature gate is on, and its stage",
                ("name", "stage"),
            ),
            lambda: _features(gates),
        ),
        Reading(
            About(
                "registered_metrics_total",
                Kind.COUNTER,
                "[BETA] Families that can be shown, by how firm upstream's promise of them is",
                ("deprecated_version", "stability_level"),
            ),
            lambda: _registered(registry),
        ),
        _none("hidden_metrics_total", "[BETA] Families that are hidden"),
        _none("disabled_metrics_total", "[BETA] Families that are disabled"),
    ]


def _build() -> tuple[str, ...]:
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".", 2)
    machine = os.uname().machine
    return (
        "",
        sys.implementation.name,
        "",
        "",
        KUBERNETES_VERSION,
        f"python{python_version()}",
        major,
        minor,
        f"linux/{_ARCHITECTURE.get(machine, machine)}",
    )


def _features(gates: Gates) -> _Series:
    for name in sorted(GATES):
        yield (name, _STAGE[GATES[name].stage]), gates.enabled(name)


def _registered(registry: Registry) -> _Series:
    counted = Counter(_stability(family.about.help) for family in registry.families())
    for level, count in sorted(counted.items()):
        yield ("", level), count


def _stability(help_: str) -> str:
    level, bracket, _ = help_.removeprefix("[").partition("] ")
    return level if bracket and help_.startswith("[") else "INTERNAL"


def _none(name: str, help_: str) -> Reading:
    return Reading(About(name, Kind.COUNTER, help_), lambda: iter([((), 0)]))
