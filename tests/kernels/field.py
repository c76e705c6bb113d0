"""In the guest: the daemon with real packets, in one mode and with one kind of the programs.

Kestrel, its pods and the world around it are the lab's network; what becomes of each packet is
written down here by hand. `python -m kernels.field VARIANT`.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from kernels.aftermath import cleanup, repair, restart
from kernels.job import NFTABLES_SINCE, version_of
from kernels.packets import PACKETS, cluster, dialled, same_endpoint
from kernels.report import Report, not_run, reporting
from kernels.sctp import leave_queues_of_sctp_alone
from kubeproxy.base.inet import Family
from kubeproxy.linux.tools import Backend
from lab.deploy import Address, deploy
from lab.differ import EQUAL, run_diff
from lab.ipvs import IPVS
from lab.namespaces import CLONE_NEWNET, CLONE_NEWNS, private_mounts, unshare
from lab.network import Network
from lab.plan import cluster_ip
from lab.programmer import DaemonProcess
from lab.responders import Responders
from lab.stage import NFTABLES as NFTABLES_VARIANT
from lab.stage import Lab, Variant
from lab.xtables import IPTABLES, programs

VARIANTS: Mapping[str, Variant] = {
    "nftables": NFTABLES_VARIANT,
    **{f"iptables-{backend.value}": IPTABLES[backend] for backend in Backend},
    **{
        f"ipvs-{backend.value}": msgspec.structs.replace(IPVS, programs=backend)
        for backend in Backend
    },
}


@contextlib.contextmanager
def opened(variant: Variant) -> Iterator[Lab]:
    """A lab in namespaces of its own."""
    leave_queues_of_sctp_alone()
    unshare(CLONE_NEWNET | CLONE_NEWNS)
    private_mounts()
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if variant.programs is not None:
            stack.enter_context(programs(variant.programs, place / "bin"))
        network = Network()
        responders = Responders(network)
        lab = Lab(network, DaemonProcess(network.node, place), variant)
        yield lab
        responders.close()


def traffic(lab: Lab, report: Report) -> None:
    """Every kind of frontend, in both families; then a change."""
    lab.run(documents=cluster())
    for packet in PACKETS:
        for family in Family:
            with report.check(f"{packet.name}, {family.value}"):
                dialled(lab, packet, family)
    for family in Family:
        with report.check(f"session affinity, {family.value}"):
            same_endpoint(lab, family)
    with report.check("a changed endpoint, and a connection that goes on"):
        _change(lab)
    with report.check("diff finds no difference"):
        found = run_diff(lab.network.node, f"--socket={lab.socket}")
        assert found == EQUAL, found
    with report.check("every frontend from a pod and from outside, as decide() says"):
        assert lab.compare(sources=("P", "X")) > 100


def _change(lab: Lab) -> None:
    open_ = [lab.connect("P", cluster_ip(21, family), 80) for family in Family]
    others = cluster()[len(deploy("cart", Address(21), "L1 R1")) :]
    lab.put(*deploy("cart", Address(21), "L2"), *others)
    for family in Family:
        outcome = lab.dial("P", cluster_ip(21, family), 80)
        assert outcome.who == "L2", outcome
    for connection in open_:
        connection.talk()
    lab.put(*cluster())


Part = Callable[[Lab, Report], None]


def main(name: str) -> None:
    """Fill the parts of a variant."""
    variant = VARIANTS[name]
    if variant is NFTABLES_VARIANT:
        parts: dict[str, tuple[Part, ...]] = {
            "traffic": (traffic,),
            "repair": (repair,),
            "restart": (restart, cleanup),
        }
        release = os.uname().release
        if version_of(release) < NFTABLES_SINCE:
            for part in parts:
                needed = ".".join(map(str, NFTABLES_SINCE))
                not_run(part, f"nftables mode needs Linux {needed}, and refuses this one")
            return
    else:
        parts = {name.replace("-", " "): (traffic, restart, cleanup)}
    with opened(variant) as lab:
        for part, steps in parts.items():
            with reporting(part) as report:
                for step in steps:
                    step(lab, report)


if __name__ == "__main__":
    main(sys.argv[1])
