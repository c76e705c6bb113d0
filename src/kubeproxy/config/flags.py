"""The command line of the daemon: arguments in, values out."""

from collections.abc import Sequence
from typing import Final

import msgspec

from kubeproxy.config.flag_table import GROUPS
from kubeproxy.config.flagset import Flag, Parsed, parse, refuse_positionals, usage

COMMAND: Final = "kube-proxy"

FLAGS: Final[tuple[Flag, ...]] = tuple(
    msgspec.structs.replace(flag, group=group) for group, flags in GROUPS.items() for flag in flags
)


def parse_flags(arguments: Sequence[str]) -> Parsed:
    """Read the daemon's command line, without the name of the program; raises UsageError."""
    parsed = parse(FLAGS, arguments)
    if not parsed.value("help", bool):
        refuse_positionals(COMMAND, parsed)
    return parsed


def usage_text() -> str:
    """How to call the daemon."""
    return usage(COMMAND, FLAGS)
