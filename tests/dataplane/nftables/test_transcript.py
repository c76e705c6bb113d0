"""Transactions as text; tests/lab/test_log.py gives it to the real nft."""

from dataplane.nftables.programming import SETTINGS
from kubeproxy.dataplane.nftables import names
from kubeproxy.dataplane.nftables.batch import Batch
from kubeproxy.dataplane.nftables.elements import head, node_elements, tail
from kubeproxy.dataplane.nftables.language import DROP, Chain
from kubeproxy.dataplane.nftables.program import program
from kubeproxy.dataplane.nftables.transcript import transcript
from world import Mode, node

PROGRAM = program(node(Mode.NFTABLES), SETTINGS)
SLOT = b"\0\0\0\1"[::-1]
KEY = head(bytes([10, 112, 0, 21, 6, 0, 0, 0, 0, 80, 0, 0]) + SLOT)
WHERE = "10.112.0.21 . tcp . 80 . 0:1"
ONE, TWO = tail(bytes([10, 64, 3, 11, 31, 144, 0, 0])), tail(bytes([10, 64, 3, 12, 31, 144, 0, 0]))


def test_what_goes_and_comes() -> None:
    batch = Batch(chains=[Chain("pick-9", ((DROP,),))])
    batch.change(names.SERVICE_ENDPOINTS, {KEY: ONE}, {KEY: TWO})
    batch.deleted_last[names.CLUSTER_IPS] = [b"\x10\0\1\0" + head(bytes([10, 112, 0, 21]))]
    assert transcript(PROGRAM, batch, replaces=False, makes=False).split("\n") == [
        "add chain ip kube-proxy pick-9",
        "flush chain ip kube-proxy pick-9",
        "add rule ip kube-proxy pick-9 drop",
        f"delete element ip kube-proxy service-endpoints {{ {WHERE} }}",
        f"add element ip kube-proxy service-endpoints {{ {WHERE} : 10.64.3.12 . 8080 }}",
        "delete element ip kube-proxy cluster-ips-in-use { 10.112.0.21 }",
    ]


def test_ranges_are_written_anew() -> None:
    here = node(Mode.NFTABLES)
    batch = Batch()
    batch.change(names.SERVICE_CIDRS, {}, node_elements(here)[names.SERVICE_CIDRS])
    assert transcript(PROGRAM, batch, replaces=False, makes=False).split("\n") == [
        "flush set ip kube-proxy service-cidrs",
        *(
            f"add element ip kube-proxy service-cidrs {{ {each} }}"
            for each in map(str, here.service_cidrs)
        ),
    ]


def test_a_table_that_is_replaced() -> None:
    lines = transcript(PROGRAM, Batch(), replaces=True, makes=True).split("\n")
    assert lines[:2] == ["delete table ip kube-proxy", "table ip kube-proxy {"]
    assert lines[-1] == "}"
