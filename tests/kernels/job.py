"""What an emulated machine is given to do: steps, each a process that fills columns."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

FILE = "job.json"
"""In the directory /run/job of the guest."""


class Step(msgspec.Struct, frozen=True):
    """The parts that it fills, a module whose `main` does it, with arguments, and its seconds."""

    parts: tuple[str, ...]
    module: str
    arguments: tuple[str, ...] = ()
    seconds: float = 600.0


class Job(msgspec.Struct, frozen=True):
    """All steps, in order."""

    steps: tuple[Step, ...]

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that they fill."""
        return tuple(part for step in self.steps for part in step.parts)


class Version(NamedTuple):
    """The first two numbers of a kernel's release."""

    major: int
    minor: int


NFTABLES_SINCE = Version(5, 13)
TOO_OLD = f"nftables mode needs Linux {'.'.join(map(str, NFTABLES_SINCE))}, and refuses this one"


def version_of(release: str) -> Version:
    """Of `6.1.0-56-amd64`: 6.1."""
    major, minor, *_ = release.split(".")
    return Version(int(major), int(minor))


TOOLS = ("iptables-legacy", "iptables-nft", "ipvs-legacy", "ipvs-nft")
"""The variants of the modes that use programs."""
_FIELD, _LAB = "kernels.field", "kernels.labjob"
STEPS = {
    "check": Step(("check",), "kernels.checkjob", seconds=300.0),
    "nftables": Step(("traffic", "repair", "restart", "take-over"), _FIELD, ("nftables",)),
    "tools": Step(tuple(name.replace("-", " ") for name in TOOLS), _FIELD, TOOLS, 900.0),
    "healing": Step(("healing",), _LAB, ("--healing",)),
    "fast-path": Step(("fast-path",), _LAB, ("--fast-path",)),
    "lab": Step(("lab",), _LAB),
}
WHOLE_LAB = Step(("lab",), _LAB, ("--all",), 8 * 3600.0)

COMMAND = "command"
"""The part of a command that people give."""


def step_of(command: Sequence[str], seconds: float) -> Step:
    """A command in place of the usual steps."""
    return Step((COMMAND,), "kernels.command", tuple(command), seconds)


def steps_for(parts: Sequence[str], *, whole_lab: bool = False) -> tuple[Step, ...]:
    """The steps that fill one of these parts."""
    steps = {**STEPS, "lab": WHOLE_LAB} if whole_lab else STEPS
    return tuple(step for step in steps.values() if not set(parts).isdisjoint(step.parts))
