"""The names follow from a hash that operators' tools know as well."""

from base64 import b32encode
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeproxy.base.inet import Protocol
from kubeproxy.dataplane.iptables.names import (
    endpoint_chain,
    is_service_chain,
    seed,
    service_chains,
)
from kubeproxy.table.entries import ServicePortName

PLAIN = ServicePortName("spec-ipt", "plain", "", Protocol.TCP)
DUAL = ServicePortName("spec-ipt", "dual", "dns", Protocol.UDP)


def test_the_chains_of_a_service_port_share_one_hash() -> None:
    assert service_chains(PLAIN) == (
        "KUBE-SVC-Y5UAWYTT6LTRZ6J2",
        "KUBE-SVL-Y5UAWYTT6LTRZ6J2",
        "KUBE-EXT-Y5UAWYTT6LTRZ6J2",
        "KUBE-FW-Y5UAWYTT6LTRZ6J2",
    )
    assert service_chains(DUAL).cluster == "KUBE-SVC-XXT7A7DJC4DZUBBM"


@pytest.mark.parametrize(
    ("name", "endpoint", "expected"),
    [
        pytest.param(PLAIN, "10.128.1.10:8080", "KUBE-SEP-6BINLWIHPRG7WVNV", id="ipv4"),
        pytest.param(DUAL, "[fd00:128:1::11]:5353", "KUBE-SEP-YVNP7YR4BZWMJZY3", id="ipv6"),
    ],
)
def test_the_chain_of_an_endpoint(name: ServicePortName, endpoint: str, expected: str) -> None:
    assert endpoint_chain(seed(name), endpoint) == expected


@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        ("KUBE-SVC-Y5UAWYTT6LTRZ6J2", True),
        ("KUBE-SEP-Y5UAWYTT6LTRZ6J2", True),
        ("KUBE-SERVICES", False),
        ("DOCKER", False),
    ],
)
def test_which_chains_belong_to_services(chain: str, expected: bool) -> None:
    assert is_service_chain(chain) == expected


@given(st.text(st.characters(codec="utf-8")))
def test_a_hash_is_the_beginning_of_the_sha_256_in_base32(endpoint: str) -> None:
    text = f"{seed(PLAIN)}{endpoint}"
    plain = b32encode(sha256(text.encode()).digest()).decode()[:16]
    assert endpoint_chain(seed(PLAIN), endpoint) == f"KUBE-SEP-{plain}"
