"""What other programs do to tables, over netlink: `python -m demo.vandal` deletes the proxy's."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from demo.ruleset import TABLE
from kubeproxy.base.inet import Family, Prefix, Protocol
from kubeproxy.dataplane.nftables.batch import program_messages
from kubeproxy.dataplane.nftables.encode import delete_table
from kubeproxy.dataplane.nftables.language import (
    DROP,
    HEADERS,
    TCP_FLAGS,
    Chain,
    Hook,
    Match,
    Program,
    Reset,
    Rule,
    in_prefix,
    is_protocol,
)
from kubeproxy.linux.nfnetlink import Nfnetlink
from lab.namespaces import Namespace

COMMAND = "delete table ip kube-proxy"
_SYN, _ACK = 0x02, 0x10
_IS_SYN = Match("", TCP_FLAGS, bytes([_SYN]), bytes([_SYN | _ACK]))
REFUSES: Rule = (is_protocol(Protocol.TCP), _IS_SYN, Reset())
"""New connections are refused."""
VANISHES: Rule = (DROP,)
"""Nothing is answered."""
_INPUT = Hook("filter", "input", 1, 0, "filter")


@contextmanager
def failing(pod: Namespace, address: str, rule: Rule) -> Iterator[None]:
    """Inside, the pod with that address does so with what it receives."""
    to_pod = in_prefix(HEADERS[Family.IPV4].daddr, Prefix(address, 32))
    chain = Chain("in", ((to_pod, *rule),), _INPUT)
    program = Program(Family.IPV4, "failing", "a pod of the demo fails", (), (), (chain,))
    with pod.entered(), Nfnetlink() as kernel:
        kernel.commit(program_messages(program))
    try:
        yield
    finally:
        with pod.entered(), Nfnetlink() as kernel:
            kernel.commit([delete_table(program.family, program.table)])


if __name__ == "__main__":
    with Nfnetlink() as own:
        own.commit([delete_table(TABLE.family, TABLE.table)])
    sys.exit(0)
