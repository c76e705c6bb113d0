"""Things to tell the operator that are no errors, as values: whoever has a log says them."""

from collections.abc import Mapping
from enum import Enum

import msgspec


class Level(Enum):
    """How loudly to say it."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Notice(msgspec.Struct, frozen=True):
    """One line for the log: a constant text and its data."""

    level: Level
    message: str
    pairs: Mapping[str, object] = {}
