"""The names of the sets, as the kernel can hold them."""

import pytest

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.ipvs.leftovers import own_sets
from kubeproxy.dataplane.ipvs.names import IpSet, set_name, set_options


@pytest.mark.parametrize(
    ("set_", "family", "expected"),
    [
        pytest.param(IpSet.CLUSTER_IP, Family.IPV4, "KUBE-CLUSTER-IP", id="ipv4"),
        pytest.param(IpSet.CLUSTER_IP, Family.IPV6, "KUBE-6-CLUSTER-IP", id="ipv6"),
        pytest.param(
            IpSet.LOAD_BALANCER_SOURCE_CIDR,
            Family.IPV6,
            "KUBE-6-LOAD-BALANCER-SOURCE-CID",
            id="cut-after-31-characters",
        ),
        pytest.param(
            IpSet.NODE_PORT_LOCAL_SCTP_HASH,
            Family.IPV6,
            "KUBE-6-NODE-PORT-LOCAL-SCTP-HAS",
            id="cut-as-well",
        ),
    ],
)
def test_name(set_: IpSet, family: Family, expected: str) -> None:
    assert expected == set_name(set_, family)


def test_every_set_is_one_that_clean_up_removes() -> None:
    names = {set_name(set_, family) for set_ in IpSet for family in Family}
    assert len(names) == 34
    assert names == set(own_sets(names))


@pytest.mark.parametrize(
    ("set_", "family", "expected"),
    [
        pytest.param(
            IpSet.LOOP_BACK,
            Family.IPV6,
            "hash:ip,port,ip family inet6 hashsize 1024 maxelem 65536",
            id="a-hash",
        ),
        pytest.param(IpSet.NODE_PORT_TCP, Family.IPV6, "bitmap:port range 0-65535", id="a-bitmap"),
    ],
)
def test_options(set_: IpSet, family: Family, expected: str) -> None:
    assert expected == set_options(set_, family)
