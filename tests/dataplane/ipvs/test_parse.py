"""The kernel's own list of virtual servers."""

import pytest

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.ipvs.parse import listed_weights
from kubeproxy.linux.netlink.ipvs import RealKey, ServerKey

LISTED = """\
IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
SCTP  0A600001:0063 rr  
TCP  [fd00:0000:0000:0000:0000:0000:0000:0001]:01BB rr 
  -> [fd00:0000:0000:0000:0000:0000:0000:0002]:20FB      Masq    0      0          0         
TCP  0A600001:0050 rr  persistent 60000 FFFFFFFF
  -> 0A010101:1F90      Masq    1      0          0         
  -> 0A010102:1F90      Masq    0      3          0         
FWM  0000004D rr 
  -> 0A010109:0000      Route   1      0          0         
UDP  0A600001:0035 mh  
  -> 0A010101:1F90      Masq    1      0          0         
"""  # noqa: W291  # as the kernel writes it
SERVED = RealKey("10.1.1.1", 8080)


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        pytest.param(
            Family.IPV4,
            {
                ServerKey(Protocol.SCTP, "10.96.0.1", 99): {},
                ServerKey(Protocol.TCP, "10.96.0.1", 80): {
                    SERVED: 1,
                    RealKey("10.1.1.2", 8080): 0,
                },
                ServerKey(Protocol.UDP, "10.96.0.1", 53): {SERVED: 1},
            },
            id="ipv4",
        ),
        pytest.param(
            Family.IPV6,
            {ServerKey(Protocol.TCP, "fd00::1", 443): {RealKey("fd00::2", 8443): 0}},
            id="ipv6",
        ),
    ],
)
def test_weights(family: Family, expected: dict[ServerKey, dict[RealKey, int]]) -> None:
    assert expected == listed_weights(LISTED, family)
