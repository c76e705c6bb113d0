"""The containers of deploy/ in the lab: what a kubelet would start, with the same rights."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import msgspec

from deploy.objects import Container, daemon_set
from deploy.overlays import config_file, overlay
from kubeproxy.base.inet import Family
from lab.confined import through
from lab.documents import complete, kestrel
from lab.network import Network
from lab.plan import CLUSTER_CIDR
from lab.programmer import DaemonProcess
from lab.stage import Lab, Variant
from world import NODE_NAME

PROGRAM = [sys.executable, "-m", "kubeproxy"]
MOUNTED = "/var/lib/kube-proxy/config.conf"
TESTS = Path(__file__).parents[1]


class Pod:
    """The pod of a folder of deploy/, with its ConfigMap's file in a directory.

    `mode` is the folder whose ConfigMap there is, where that is not its own.
    """

    def __init__(self, folder: str, network: Network, directory: Path, mode: str = "") -> None:
        pod = daemon_set(overlay(folder)).pod
        (self._first,), (self._proxy,) = pod.init_containers, pod.containers
        self._empty = {volume.name for volume in pod.volumes if volume.empty_dir}
        self._network = network
        self._directory = directory
        self._config = directory / "config.conf"
        ranges = ",".join(CLUSTER_CIDR[family] for family in Family)
        given = config_file(overlay(mode or folder))
        self._config.write_text(re.sub(r"(?m)^clusterCIDR: .*$", f"clusterCIDR: {ranges}", given))
        (directory / "node").mkdir()
        (directory / "node/node.yaml").write_text(json.dumps(complete(kestrel())))

    @property
    def capabilities(self) -> tuple[str, ...]:
        assert self._proxy.security_context.capabilities is not None
        return self._proxy.security_context.capabilities.add

    @property
    def log(self) -> str:
        """All that the proxy said."""
        return (self._directory / "daemon.log").read_text()

    def lab(self, variant: Variant) -> Lab:
        """A lab whose proxy is the pod's."""
        before = self._through(self._proxy, self.capabilities)
        self._programmer = DaemonProcess(self._network.node, self._directory, before)
        flags = (f"--config={self._config}",)
        shown = msgspec.structs.replace(variant, flags=flags)
        return Lab(self._network, self._programmer, shown)

    def end(self) -> None:
        """End the lab's proxy, whose rules stay."""
        self._programmer.stop()

    def initialise(self) -> subprocess.CompletedProcess[str]:
        """Run the first container, which may do everything."""
        assert self._first.security_context.privileged
        return self._run(self._first, [])

    def without(self, missing: str) -> subprocess.CompletedProcess[str]:
        """Run the proxy without one of its capabilities until it ends."""
        left = [name for name in self.capabilities if name != missing]
        return self._run(self._proxy, self._through(self._proxy, left))

    def _through(self, container: Container, capabilities: Collection[str]) -> list[str]:
        assert container.security_context.read_only_root_filesystem
        writable = [each for each in container.volume_mounts if not each.read_only]
        for each in writable:
            place = Path(each.mount_path)
            if each.name in self._empty:
                place.mkdir(exist_ok=True)
            else:
                place.touch()
        return through(tuple(capabilities), [each.mount_path for each in writable])

    def _run(self, container: Container, before: list[str]) -> subprocess.CompletedProcess[str]:
        arguments = [
            argument.replace(MOUNTED, str(self._config)).replace("$(NODE_NAME)", NODE_NAME)
            for argument in container.args
        ]
        command = [*before, *PROGRAM, *arguments, f"--manifests={self._directory / 'node'}"]
        with self._network.node.entered():
            return subprocess.run(
                command,
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
                env={**os.environ, "PYTHONPATH": str(TESTS)},
            )
