"""Findings -> whether a mode would work on this node, in one line."""

from collections.abc import Collection, Iterable, Sequence

import msgspec
from msgspec.structs import replace

from kubeproxy.dataplane.mode import Mode
from kubeproxy.dataplane.modes import MODES
from kubeproxy.dataplane.preflight import PROGRAMS, Finding, Grade
from kubeproxy.serve.status.words import plural


class ModeVerdict(msgspec.Struct, frozen=True):
    """Whether a mode would work, and why not; `known` is false when that was not found out."""

    mode: str
    ready: bool
    conclusion: str
    known: bool = True


class Report(msgspec.Struct, frozen=True, rename="camel"):
    """Everything that was found, and what follows from it.

    `checked_as` is the user that looked, because not every user sees everything.
    """

    node: str
    kernel: str
    checked_as: str
    verdicts: tuple[ModeVerdict, ...]
    findings: tuple[Finding, ...]

    @property
    def works(self) -> bool:
        """Whether any of the modes that were asked for would work."""
        return any(verdict.ready for verdict in self.verdicts)

    @property
    def known(self) -> bool:
        """Whether that was found out."""
        return self.works or all(verdict.known for verdict in self.verdicts)


def concerning(findings: Iterable[Finding], modes: Collection[Mode]) -> tuple[Finding, ...]:
    """What matters for these modes, and for them only."""
    narrowed = (
        replace(finding, modes=tuple(mode.name for mode in modes if _matters(finding, mode)))
        for finding in findings
    )
    return tuple(finding for finding in narrowed if finding.modes)


def _matters(finding: Finding, mode: Mode) -> bool:
    if finding.modes is not None:
        return mode.name in finding.modes
    if finding.topic == PROGRAMS:
        return mode.uses_iptables
    return finding.topic == mode.name or finding.topic not in MODES


def judge(mode: Mode, findings: Iterable[Finding]) -> ModeVerdict:
    """Whether the mode would work, as far as these findings say."""
    by_state: dict[Grade, list[Finding]] = {state: [] for state in Grade}
    for finding in findings:
        if _matters(finding, mode):
            by_state[finding.state].append(finding)
    missing = by_state[Grade.MISSING]
    if missing:
        return ModeVerdict(mode.name, False, f"not possible: {_reason(missing)}")
    untried = by_state[Grade.UNTRIED]
    if untried:
        return ModeVerdict(mode.name, False, f"not known: {_reason(untried)}", known=False)
    unknown, warnings = len(by_state[Grade.UNKNOWN]), len(by_state[Grade.WARNING])
    conclusion = "ready"
    if unknown:
        conclusion += f" as far as can be seen ({plural(unknown, 'thing')} could not be)"
    if warnings:
        conclusion += f", {plural(warnings, 'warning')}"
    return ModeVerdict(mode.name, True, conclusion)


def _reason(found: Sequence[Finding]) -> str:
    first = found[0]
    said = ": ".join(part for part in (first.detail or first.what, first.remedy) if part)
    return f"{said} (and {len(found) - 1} more)" if len(found) > 1 else said
