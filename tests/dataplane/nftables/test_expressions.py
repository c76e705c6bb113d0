"""Rules as the kernel gets them, in the words of `nft --debug=netlink`.

Every line below was compared with what nft 1.0.6 sends for the same rule as text.
"""

import pytest

from dataplane.nftables.netlinktext import rule_lines
from dataplane.nftables.programming import with_node
from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.nftables.choices import Pick, Remember, chain_of
from kubeproxy.dataplane.nftables.encode import key_size
from kubeproxy.dataplane.nftables.expressions import encode_rule, register, slots
from kubeproxy.dataplane.nftables.language import (
    DPORT,
    DROP,
    HEADERS,
    L4PROTO,
    NEW,
    OWN_SOURCE,
    RETURN,
    TRANSLATED,
    Chain,
    InSet,
    Mark,
    Masquerade,
    Reject,
    Rule,
    SetPriority,
    Statement,
    UseCounter,
    VerdictMap,
    from_interface,
    goto,
    in_prefix,
    is_marked,
    is_protocol,
    jump,
    numgen,
    source_hash,
)
from kubeproxy.dataplane.nftables.program import NftablesSettings, program
from kubeproxy.table.entries import Balance
from kubeproxy.table.node import NodeView
from world import Mode, node, prefix

V4, V6 = HEADERS[Family.IPV4], HEADERS[Family.IPV6]


def lines(rule: Rule) -> list[str]:
    return rule_lines(encode_rule(rule))


def lines_of(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        pytest.param(
            in_prefix(V4.saddr, prefix("10.64.0.0/14")),
            """
            [ payload load 4b @ network header + 12 => reg 1 ]
            [ bitwise reg 1 = ( reg 1 & 0x0000fcff ) ^ 0x00000000 ]
            [ cmp eq reg 1 0x0000400a ]
            """,
            id="bits-beyond-a-byte-are-masked",
        ),
        pytest.param(
            in_prefix(V4.saddr, prefix("10.64.3.0/24"), negate=True),
            """
            [ payload load 3b @ network header + 12 => reg 1 ]
            [ cmp neq reg 1 0x0003400a ]
            """,
            id="whole-bytes-are-compared-as-they-are",
        ),
        pytest.param(
            in_prefix(V4.daddr, prefix("0.0.0.0/0")),
            """
            [ payload load 4b @ network header + 16 => reg 1 ]
            [ bitwise reg 1 = ( reg 1 & 0x00000000 ) ^ 0x00000000 ]
            [ cmp eq reg 1 0x00000000 ]
            """,
            id="everything",
        ),
        pytest.param(
            in_prefix(V6.daddr, prefix("::1/128")),
            """
            [ payload load 16b @ network header + 24 => reg 1 ]
            [ cmp eq reg 1 0x00000000 0x00000000 0x00000000 0x01000000 ]
            """,
            id="one-address",
        ),
        pytest.param(
            is_protocol(Protocol.UDP),
            """
            [ meta load l4proto => reg 1 ]
            [ cmp eq reg 1 0x00000011 ]
            """,
            id="protocol",
        ),
        pytest.param(
            from_interface("cni0"),
            """
            [ meta load iifname => reg 1 ]
            [ cmp eq reg 1 0x30696e63 0x00000000 0x00000000 0x00000000 ]
            """,
            id="the-whole-name-of-an-interface",
        ),
        pytest.param(
            from_interface("cni", prefix=True, negate=True),
            """
            [ meta load iifname => reg 1 ]
            [ cmp neq reg 1 0x00696e63 ]
            """,
            id="the-beginning-of-its-name",
        ),
        pytest.param(
            NEW,
            """
            [ ct load state => reg 1 ]
            [ bitwise reg 1 = ( reg 1 & 0x00000008 ) ^ 0x00000000 ]
            [ cmp neq reg 1 0x00000000 ]
            """,
            id="new",
        ),
        pytest.param(
            TRANSLATED,
            """
            [ ct load status => reg 1 ]
            [ bitwise reg 1 = ( reg 1 & 0x00000020 ) ^ 0x00000000 ]
            [ cmp neq reg 1 0x00000000 ]
            """,
            id="translated",
        ),
        pytest.param(
            OWN_SOURCE,
            """
            [ fib saddr type => reg 1 ]
            [ cmp eq reg 1 0x00000002 ]
            """,
            id="own-source",
        ),
        pytest.param(
            is_marked(0x4000),
            """
            [ meta load mark => reg 1 ]
            [ bitwise reg 1 = ( reg 1 & 0x00004000 ) ^ 0x00000000 ]
            [ cmp neq reg 1 0x00000000 ]
            """,
            id="marked",
        ),
        pytest.param(
            Mark(0x4000),
            """
            [ meta load mark => reg 1 ]
            [ bitwise reg 1 = ( reg 1 & 0xffffbfff ) ^ 0x00004000 ]
            [ meta set mark with reg 1 ]
            """,
            id="other-bits-of-the-mark-survive",
        ),
        pytest.param(
            Mark(0x4000, clear=True),
            """
            [ meta load mark => reg 1 ]
            [ bitwise reg 1 = ( reg 1 & 0xffffffff ) ^ 0x00004000 ]
            [ meta set mark with reg 1 ]
            """,
            id="the-mark-is-cleared",
        ),
        pytest.param(
            InSet((V4.saddr, V4.daddr, L4PROTO, DPORT), "hairpins"),
            """
            [ payload load 4b @ network header + 12 => reg 1 ]
            [ payload load 4b @ network header + 16 => reg 9 ]
            [ meta load l4proto => reg 10 ]
            [ payload load 2b @ transport header + 2 => reg 11 ]
            [ lookup reg 1 set hairpins ]
            """,
            id="in-a-set",
        ),
        pytest.param(
            InSet((V6.saddr, V6.daddr, L4PROTO, DPORT), "hairpins"),
            """
            [ payload load 16b @ network header + 8 => reg 1 ]
            [ payload load 16b @ network header + 24 => reg 2 ]
            [ meta load l4proto => reg 3 ]
            [ payload load 2b @ transport header + 2 => reg 17 ]
            [ lookup reg 1 set hairpins ]
            """,
            id="in-a-set-of-ipv6",
        ),
        pytest.param(
            VerdictMap((V4.daddr, L4PROTO, DPORT), "service-choices"),
            """
            [ payload load 4b @ network header + 16 => reg 1 ]
            [ meta load l4proto => reg 9 ]
            [ payload load 2b @ transport header + 2 => reg 10 ]
            [ lookup reg 1 set service-choices dreg 0 ]
            """,
            id="a-verdict-from-a-map",
        ),
        pytest.param(
            SetPriority((L4PROTO, DPORT), "nodeport-affinity"),
            """
            [ meta load l4proto => reg 1 ]
            [ payload load 2b @ transport header + 2 => reg 9 ]
            [ lookup reg 1 set nodeport-affinity dreg 1 ]
            [ meta set priority with reg 1 ]
            """,
            id="the-number-of-a-service",
        ),
        pytest.param(
            SetPriority(),
            """
            [ immediate reg 1 0x00000000 ]
            [ meta set priority with reg 1 ]
            """,
            id="the-number-is-cleared",
        ),
        pytest.param(Masquerade(), "[ masq flags 0x10 ]", id="masquerade-fully-random"),
        pytest.param(Reject(Family.IPV4), "[ reject type 0 code 3 ]", id="port-unreachable"),
        pytest.param(Reject(Family.IPV6), "[ reject type 0 code 4 ]", id="ipv6-port-unreachable"),
        pytest.param(
            UseCounter("localhost-tcp"), "[ objref type 1 name localhost-tcp ]", id="count"
        ),
        pytest.param(DROP, "[ immediate reg 0 drop ]", id="drop"),
        pytest.param(RETURN, "[ immediate reg 0 return ]", id="return"),
        pytest.param(goto("pick-2"), "[ immediate reg 0 goto -> pick-2 ]", id="goto"),
        pytest.param(jump("frontends"), "[ immediate reg 0 jump -> frontends ]", id="jump"),
    ],
)
def test_statements(statement: Statement, expected: str) -> None:
    assert lines_of(expected) == lines((statement,))


PICK = """
{number}
[ meta set priority with reg 1 ]
[ immediate reg 0 goto -> draw-from-service-endpoints ]
"""
DRAW = """
[ payload load {size}b @ network header + {daddr} => reg 1 ]
[ meta load l4proto => reg {protocol} ]
[ payload load 2b @ transport header + 2 => reg {port} ]
[ meta load priority => reg {slot} ]
[ lookup reg 1 set service-endpoints dreg 1 ]
[ nat dnat {family} addr_min reg 1 proto_min reg {nat_port} ]
"""
REGISTERS: dict[Family, dict[str, object]] = {
    Family.IPV4: {
        "size": 4,
        "daddr": 16,
        "protocol": 9,
        "port": 10,
        "slot": 11,
        "family": "ip",
        "nat_port": 9,
    },
    Family.IPV6: {
        "size": 16,
        "daddr": 24,
        "protocol": 2,
        "port": 13,
        "slot": 14,
        "family": "ip6",
        "nat_port": 2,
    },
}


@pytest.mark.parametrize(
    ("family", "balance", "number"),
    [
        pytest.param(
            Family.IPV4, Balance.RANDOM, "[ numgen reg 1 = random mod 3 offset 1 ]", id="random"
        ),
        pytest.param(
            Family.IPV6,
            Balance.RANDOM,
            "[ numgen reg 1 = random mod 3 offset 1 ]",
            id="random-ipv6",
        ),
        pytest.param(
            Family.IPV4, Balance.ROUND_ROBIN, "[ numgen reg 1 = inc mod 3 offset 1 ]", id="in-turn"
        ),
        pytest.param(
            Family.IPV4,
            Balance.SOURCE_HASH,
            "[ payload load 4b @ network header + 12 => reg 4 ]\n"
            "[ hash reg 1 = jhash(reg 4, 4, 0x1) % mod 3 offset 1 ]",
            id="by-the-source",
        ),
        pytest.param(
            Family.IPV6,
            Balance.SOURCE_HASH,
            "[ payload load 16b @ network header + 8 => reg 4 ]\n"
            "[ hash reg 1 = jhash(reg 4, 16, 0x1) % mod 3 offset 1 ]",
            id="by-the-source-ipv6",
        ),
    ],
)
def test_a_choice_is_a_number_that_is_drawn(family: Family, balance: Balance, number: str) -> None:
    pick = Pick(node_port=False, local=False, count=3, balance=balance)
    (rule,) = chain_of(pick, node(Mode.NFTABLES, family)).rules
    assert lines_of(PICK.format(number=number)) == lines(rule)


@pytest.mark.parametrize("family", Family)
def test_what_was_drawn_is_looked_up_once(family: Family) -> None:
    chains = program(node(Mode.NFTABLES, family), NftablesSettings()).chains
    (draw,) = (each for each in chains if each.name == "draw-from-service-endpoints")
    (rule,) = draw.rules
    assert lines_of(DRAW.format(**REGISTERS[family])) == lines(rule)


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        pytest.param(
            Family.IPV4,
            """
            [ meta load priority => reg 1 ]
            [ payload load 4b @ network header + 12 => reg 9 ]
            [ payload load 4b @ network header + 16 => reg 4 ]
            [ payload load 2b @ transport header + 2 => reg 21 ]
            [ hash reg 2 = jhash(reg 4, 8, 0x1) % mod 2147483648 offset 2147483648 ]
            [ dynset update reg_key 1 set affinity sreg_data 2 timeout 60000ms ]
            [ immediate reg 1 0x00000000 ]
            [ meta set priority with reg 1 ]
            [ immediate reg 0 return ]
            """,
            id="ipv4",
        ),
        pytest.param(
            Family.IPV6,
            """
            [ meta load priority => reg 1 ]
            [ payload load 16b @ network header + 8 => reg 9 ]
            [ payload load 16b @ network header + 24 => reg 19 ]
            [ payload load 2b @ transport header + 2 => reg 23 ]
            [ hash reg 13 = jhash(reg 19, 20, 0x1) % mod 2147483648 offset 2147483648 ]
            [ dynset update reg_key 1 set affinity sreg_data 13 timeout 60000ms ]
            [ immediate reg 1 0x00000000 ]
            [ meta set priority with reg 1 ]
            [ immediate reg 0 return ]
            """,
            id="ipv6",
        ),
    ],
)
def test_a_client_is_remembered_with_what_it_got(family: Family, expected: str) -> None:
    remember = Remember(node_port=False, local=False, seconds=60)
    rule = chain_of(remember, node(Mode.NFTABLES, family)).rules[3]
    assert lines_of(expected) == lines(rule)


@pytest.mark.parametrize("family", Family)
def test_values_that_are_read_together_do_not_overlap(family: Family) -> None:
    """Registers of a rule, as 32-bit slots; the key of a hash is beside the key of the map."""
    headers = HEADERS[family]
    for key in (
        (headers.daddr, L4PROTO, DPORT, numgen(2)),
        (headers.saddr, headers.daddr, L4PROTO, DPORT),
        (headers.daddr, L4PROTO, DPORT, headers.saddr),
    ):
        assert key_size(key) == 4 * sum(map(slots, key)) <= 64
    hashed = (headers.daddr, L4PROTO, DPORT, source_hash(headers.saddr, 2))
    assert sum(map(slots, hashed)) <= 12


@pytest.mark.parametrize(
    ("slot", "expected"), [(0, 1), (1, 9), (4, 2), (5, 13), (12, 4), (15, 23)]
)
def test_registers_have_the_numbers_that_the_kernel_dumps(slot: int, expected: int) -> None:
    assert expected == register(slot)


@pytest.mark.parametrize("family", Family)
def test_every_rule_of_the_program_can_be_read_as_text(family: Family) -> None:
    chains: tuple[Chain, ...] = program(gated(family), NftablesSettings()).chains
    for chain in chains:
        for rule in chain.rules:
            assert lines(rule)


def gated(family: Family) -> NodeView:
    return with_node(node(Mode.NFTABLES, family), localhost_gate=True)
