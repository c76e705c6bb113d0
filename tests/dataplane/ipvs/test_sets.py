"""What `ipset` lists, and what it is given."""

import pytest

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.ipvs import sets
from kubeproxy.dataplane.ipvs.names import IpSet, set_name, set_options
from kubeproxy.dataplane.ipvs.sets import FoundSet, listed_sets

SAVED = """\
create KUBE-CLUSTER-IP hash:ip,port family inet hashsize 1024 maxelem 65536 bucketsize 12
add KUBE-CLUSTER-IP 10.112.0.21,tcp:80
add KUBE-CLUSTER-IP 10.112.0.22,tcp:80 timeout 0
create THEIRS hash:ip family inet hashsize 1024 maxelem 65536
add THEIRS 192.0.2.1
create KUBE-6-CLUSTER-IP hash:ip,port family inet6 hashsize 1024 maxelem 65536
add KUBE-6-CLUSTER-IP fd12::21,tcp:80
create KUBE-NODE-PORT-TCP bitmap:port range 0-65535
"""


def test_what_is_there_of_a_family() -> None:
    found = listed_sets(SAVED, Family.IPV4)
    assert {IpSet.CLUSTER_IP, IpSet.NODE_PORT_TCP} == found.keys()
    assert {"10.112.0.21,tcp:80", "10.112.0.22,tcp:80"} == found[IpSet.CLUSTER_IP].members
    assert FoundSet("bitmap:port range 0-65535", set()) == found[IpSet.NODE_PORT_TCP]


def test_sets_that_are_missing_are_made() -> None:
    lines = sets.creation(listed_sets(SAVED, Family.IPV4), Family.IPV4).splitlines()
    assert len(lines) == 15
    options = "hash:ip,port,ip family inet hashsize 1024 maxelem 65536"
    assert f"create KUBE-LOOP-BACK {options}" == lines[0]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param("hash:net family inet hashsize 1024", id="another-type"),
        pytest.param("hash:ip,port family inet6 hashsize 1024", id="another-family"),
    ],
)
def test_a_set_of_others_is_refused_by_name(options: str) -> None:
    found = {IpSet.CLUSTER_IP: FoundSet(options)}
    with pytest.raises(KernelError, match="`ipset destroy KUBE-CLUSTER-IP`"):
        sets.creation(found, Family.IPV4)


@pytest.mark.parametrize("family", Family)
def test_what_is_made_is_recognised(family: Family) -> None:
    saved = "".join(
        f"create {set_name(set_, family)} {set_options(set_, family)} initval 0x1\n"
        for set_ in IpSet
    )
    assert sets.creation(listed_sets(saved, family), family) == ""


def test_the_difference() -> None:
    found = {IpSet.CLUSTER_IP: FoundSet("", {"a", "b", "z"}), IpSet.IPVS_IPS: FoundSet("")}
    wanted = {
        IpSet.CLUSTER_IP: {"b": 2, "c": 1},
        IpSet.IPVS_IPS: {},
        IpSet.NODE_PORT_TCP: {"80": 1},
    }
    missing, excess = sets.member_changes(found, wanted)
    assert missing == ((IpSet.CLUSTER_IP, "c"), (IpSet.NODE_PORT_TCP, "80"))
    assert excess == ((IpSet.CLUSTER_IP, "a"), (IpSet.CLUSTER_IP, "z"))


def test_the_words() -> None:
    member = ((IpSet.NODE_PORT_TCP, "31080"),)
    assert sets.member_lines("add", member, Family.IPV6) == "add KUBE-6-NODE-PORT-TCP 31080\n"
    assert sets.member_lines("del", member, Family.IPV4) == "del KUBE-NODE-PORT-TCP 31080\n"
