"""`kube-proxy plan` in a terminal: progress while it works, and nothing left of it after."""

import sys
from pathlib import Path

from terminals import in_terminal, plain
from tools.manifests import SHOP, of_kind, write
from world import Document, endpoint_slice, service

MANY = 120


def numbered(number: int) -> tuple[Document, Document]:
    name = f"cart-{number}"
    slice_ = endpoint_slice("L1", {}, name=f"{name}-1")
    labels = {"labels": {"kubernetes.io/service-name": name}}
    metadata = {"namespace": "shop", "name": f"{name}-1", **labels}
    return (
        of_kind("Service", service({"clusterIP": f"10.112.1.{number}"}, name=name)),
        of_kind("EndpointSlice", {**slice_, "metadata": metadata}),
    )


def test_progress_is_shown_and_gone_at_the_end(tmp_path: Path) -> None:
    write(tmp_path, [*SHOP, *(each for number in range(MANY) for each in numbered(number))])
    flags = [f"--manifests={tmp_path}", "--cluster-cidr=10.64.0.0/14", "--node=kestrel"]
    modes = ["--proxy-mode=iptables", "--mode=nftables"]
    command = [sys.executable, "-m", "kubeproxy", "plan", *flags, *modes]
    with in_terminal(command, 90, 40) as terminal:
        assert terminal.wait() == 1
        said = terminal.said
    meanwhile, _, answer = said.partition("\r\x1b[K")
    assert f"\r50 of {MANY + 1} Services" in meanwhile
    lines = plain(answer).replace("\r\n", "\n").splitlines()
    assert lines[0] == "Plan for node kestrel: from iptables to nftables mode (nothing is written)"
    assert max(map(len, lines)) <= 90
