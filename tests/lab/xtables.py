"""iptables mode in the lab, with either kind of the system's programs."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from kubeproxy.linux.tools import RuleKind, find
from lab.stage import Variant
from world import Mode

PROGRAMS = ("iptables", "ip6tables")
TABLES = ("filter", "nat", "mangle")
SAVE = ("sh", "-c", "iptables-save && ip6tables-save")

IPTABLES = {
    backend: Variant(
        f"iptables-{backend.value}",
        Mode.IPTABLES,
        ("--proxy-mode=iptables", "--iptables-sync-period=1s"),
        SAVE,
        tuple(
            (program, "-w", "-t", table, action)
            for program in PROGRAMS
            for table in TABLES
            for action in ("-F", "-X")
        ),
        programs=backend,
    )
    for backend in RuleKind
}


@contextlib.contextmanager
def programs(backend: RuleKind, directory: Path) -> Iterator[Path]:
    """Have `iptables` and its like in PATH be those of one kind, whatever the system's are."""
    directory.mkdir(parents=True, exist_ok=True)
    target = find(f"xtables-{backend.value}-multi")
    assert target is not None, "install iptables"
    for program in PROGRAMS:
        for name in (program, f"{program}-save", f"{program}-restore"):
            (directory / name).symlink_to(target)
    os.environ["PATH"] = f"{directory}:{os.environ['PATH']}"
    try:
        yield directory
    finally:
        places = os.environ["PATH"].split(":")
        os.environ["PATH"] = ":".join(each for each in places if each != str(directory))
