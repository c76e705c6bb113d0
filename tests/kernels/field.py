"""In the guest: the daemon with real packets, in one mode and with one kind of the programs.

Kestrel, its pods and the world around it are the lab's network; what becomes of each packet is
written down here by hand.
"""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from kernels.aftermath import cleanup, repair, restart
from kernels.forked import Sparing
from kernels.job import NFTABLES_SINCE, TOO_OLD, TOOLS, version_of
from kernels.packets import PACKETS, cluster, dialled, same_endpoint
from kernels.report import Report, not_run, reporting
from kernels.takeover import there_and_back
from kubeproxy.base.inet import Family
from kubeproxy.linux.tools import RuleKind
from lab.deploy import Address, deploy
from lab.differ import EQUAL, run_diff
from lab.ipvs import IPVS
from lab.launch import launched_by
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
    **{f"iptables-{backend.value}": IPTABLES[backend] for backend in RuleKind},
    **{
        f"ipvs-{backend.value}": msgspec.structs.replace(IPVS, programs=backend)
        for backend in RuleKind
    },
}


@contextlib.contextmanager
def opened() -> Iterator[Network]:
    """The lab's network, in namespaces of its own, with those who answer in it."""
    unshare(CLONE_NEWNET | CLONE_NEWNS)
    private_mounts()
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    network = Network()
    responders = Responders(network)
    yield network
    responders.close()


@contextlib.contextmanager
def staged(network: Network, variant: Variant) -> Iterator[Lab]:
    """A lab for one variant; afterwards no rule of it is left."""
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if variant.programs is not None:
            stack.enter_context(programs(variant.programs, place / "bin"))
        lab = Lab(network, DaemonProcess(network.node, place), variant)
        stack.callback(lab.stop)
        yield lab


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


Work = Callable[[Lab, Report], None]
WORK: Mapping[str, Mapping[str, tuple[Work, ...]]] = {
    "nftables": {
        "traffic": (traffic,),
        "repair": (repair,),
        "restart": (restart, cleanup),
        "take-over": (there_and_back,),
    },
    **{name: {name.replace("-", " "): (traffic, restart, cleanup)} for name in TOOLS},
}
"""The parts that each variant fills."""


def main(names: Sequence[str]) -> None:
    """Fill the parts of these variants."""
    has_nftables = version_of(os.uname().release) >= NFTABLES_SINCE
    with opened() as network, launched_by(Sparing()):
        for name in names:
            if name == "nftables" and not has_nftables:
                for part in WORK[name]:
                    not_run(part, TOO_OLD)
                continue
            with staged(network, VARIANTS[name]) as lab:
                for part, steps in WORK[name].items():
                    with reporting(part) as report:
                        for step in steps:
                            step(lab, report)
