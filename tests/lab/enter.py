"""Runs a command where a lab can be built: `python -m lab.enter -- pytest tests/lab`.

The command gets a user, a network and a mount namespace of its own, in which it is root and from
which it reaches nothing of the host's network: no address, no rule, no connection. It needs no
privileges, and takes none when it is started with them.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from lab.namespaces import (
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWUSER,
    Refused,
    private_mounts,
    unshare,
)

VARIABLE = "KUBEPROXY_LAB"
"""Set to the network namespace in which the command began."""
PROGRAMS = ("ip", "nft", "conntrack")

_ADVICE = """\
The lab needs user, network and mount namespaces, which this machine does not grant: {error}.
Allow them: sysctl user.max_user_namespaces above 0; on Ubuntu also
kernel.apparmor_restrict_unprivileged_userns=0; in a container, a seccomp profile that permits
unshare and mount (docker run --privileged does)."""


def network_name() -> str:
    """The name of the network namespace of this process."""
    return str(Path("/proc/self/ns/net").readlink())


def is_entered(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process was started by `lab.enter`, or is a child of one that was."""
    return environment.get(VARIABLE) == network_name()


def enter() -> None:
    """Put this process, which must have one thread only, into namespaces of its own."""
    uid, gid = os.geteuid(), os.getegid()
    unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS)
    proc = Path("/proc/self")
    (proc / "setgroups").write_text("deny")
    (proc / "uid_map").write_text(f"0 {uid} 1")
    (proc / "gid_map").write_text(f"0 {gid} 1")
    private_mounts()
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    os.environ[VARIABLE] = network_name()


def main(arguments: list[str]) -> str:
    """Enter, and become the command; what comes back is why that was not possible."""
    command = arguments[1:] if arguments[:1] == ["--"] else arguments
    if not command:
        return "usage: python -m lab.enter -- COMMAND [ARGUMENT...]"
    os.environ["PATH"] += ":/usr/sbin:/sbin"  # where Debian keeps them, and users do not look
    missing = [name for name in PROGRAMS if not _is_program(name)]
    if missing:
        return (
            f"The lab needs these programs, which are not installed: {', '.join(missing)}. "
            "Run:  apt-get install iproute2 nftables conntrack"
        )
    try:
        enter()
    except (Refused, PermissionError) as error:
        return _ADVICE.format(error=error)
    os.execvp(command[0], command)
    raise AssertionError("execvp returned")


def _is_program(name: str) -> bool:
    return any(os.access(Path(place, name), os.X_OK) for place in os.get_exec_path())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
