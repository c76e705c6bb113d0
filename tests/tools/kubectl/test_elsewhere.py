"""The plugin runs at a desk, which may be no Linux: what only Linux has is not needed for it."""

import subprocess
import sys

ONLY_LINUX = """
import ctypes, os, select, socket, sys

for module, beginnings in (
    (socket, ("AF_NETLINK", "NETLINK_", "SO_PEERCRED", "SO_MARK", "SOCK_NON", "SOCK_CLO")),
    (os, ("eventfd", "EFD_", "sched_", "memfd", "MFD_", "pidfd", "setns", "unshare", "CLONE_")),
    (select, ("epoll", "EPOLL")),
):
    for name in [name for name in dir(module) if name.startswith(beginnings)]:
        delattr(module, name)


class OtherLibrary:
    def __init__(self, *_, **__):
        pass


ctypes.CDLL = OtherLibrary
sys.platform = "darwin"
from kubeproxy.app.cli import kubectl_plugin
sys.exit(kubectl_plugin(["services", "--help"]))
"""


def test_what_only_linux_has_is_not_needed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ONLY_LINUX], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "--all-nodes" in done.stdout
