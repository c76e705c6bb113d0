"""Kernel settings that the proxy makes."""

from typing import NamedTuple

import msgspec


class Sysctl(msgspec.Struct, frozen=True):
    """A sysctl and the value that it should have, or at least have.

    `leave` is what in the configuration keeps us from touching it, and `asked_by` the fields that
    ask for the value.
    """

    name: str
    value: int
    leave: str
    at_least: bool = False
    asked_by: str = ""

    def is_met(self, current: int | None) -> bool:
        """Whether a value will do; there is none when the kernel lacks the setting."""
        if current is None:
            return False
        return current >= self.value if self.at_least else current == self.value

    def lowers(self, current: int | None) -> bool:
        """Whether there will be less than there was: fewer flows, or less time for idle ones."""
        return current is not None and not self.at_least and current > self.value


class Sysctls(NamedTuple):
    """The settings that a mode makes.

    `purpose` is what they are for. `without` is what happens where one cannot be made: "" where
    the mode does not work then.
    """

    wanted: tuple[Sysctl, ...] = ()
    purpose: str = ""
    without: str = ""
