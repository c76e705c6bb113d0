import pytest

from kubeproxy.dataplane.nftables.fastpath.choice import chosen
from kubeproxy.linux.netlink.route import ARPHRD_ETHER, IFF_LOOPBACK, Device

_ARPHRD_TUNNEL = 768
DEVICES = (
    Device("lo", "", 772, IFF_LOOPBACK),
    Device("eth0", "", ARPHRD_ETHER, 0),
    Device("vethab12", "veth", ARPHRD_ETHER, 0),
    Device("cni0", "bridge", ARPHRD_ETHER, 0),
    Device("bond0", "bond", ARPHRD_ETHER, 0),
    Device("bond0.7", "vlan", ARPHRD_ETHER, 0),
    Device("flannel.1", "vxlan", ARPHRD_ETHER, 0),
    Device("wg0", "wireguard", 65534, 0),
    Device("kube-ipvs0", "dummy", ARPHRD_ETHER, 0),
    Device("tunl0", "", _ARPHRD_TUNNEL, 0),
)


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        pytest.param((), "bond0 bond0.7 cni0 eth0 vethab12", id="the-usual-ones"),
        pytest.param(("eth0", "veth*"), "eth0 vethab12", id="names-and-patterns"),
        pytest.param(("flannel.?", "ETH0"), "flannel.1", id="a-tunnel-that-is-asked-for"),
        pytest.param(("*",), " ".join(sorted(d.name for d in DEVICES[1:])), id="all-but-loopback"),
        pytest.param(("lo",), "", id="never-loopback"),
    ],
)
def test_which_devices_take_part(patterns: tuple[str, ...], expected: str) -> None:
    assert tuple(expected.split()) == chosen(DEVICES, patterns)
