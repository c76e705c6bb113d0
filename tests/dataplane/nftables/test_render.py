import pytest

from dataplane.nftables.programming import SETTINGS, with_node
from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.nftables.language import (
    DPORT,
    DROP,
    HEADERS,
    L4PROTO,
    NEW,
    ORIGINAL_DPORT,
    OWN_SOURCE,
    PRIORITY,
    RETURN,
    TRANSLATED,
    Chain,
    Dnat,
    Hook,
    InSet,
    Mark,
    Masquerade,
    Program,
    Reject,
    Rule,
    Set,
    SetPriority,
    UseCounter,
    VerdictMap,
    from_interface,
    goto,
    in_prefix,
    is_marked,
    is_protocol,
    jump,
    numgen,
    remember,
    source_hash,
)
from kubeproxy.dataplane.nftables.program import program
from kubeproxy.dataplane.nftables.render import (
    chain_lines,
    render,
    rule_text,
    set_lines,
    timeout_text,
)
from world import Mode, node, prefix

V4, V6 = HEADERS[Family.IPV4], HEADERS[Family.IPV6]
FRONTEND = (V4.daddr, L4PROTO, DPORT)
TCP = is_protocol(Protocol.TCP)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ((in_prefix(V4.saddr, prefix("10.64.0.0/14")),), "ip saddr 10.64.0.0/14"),
        ((in_prefix(V6.daddr, prefix("::1/128"), negate=True),), "ip6 daddr != ::1"),
        ((TCP, DROP), "meta l4proto tcp drop"),
        ((from_interface("cni0"),), 'iifname "cni0"'),
        ((from_interface("cni", prefix=True, negate=True),), 'iifname != "cni*"'),
        (
            (NEW, TRANSLATED, OWN_SOURCE),
            "ct state new ct status dnat fib saddr type local",
        ),
        ((is_marked(0x4000),), "meta mark & 0x00004000 != 0x00000000"),
        ((Mark(0x4000),), "meta mark set meta mark | 0x00004000"),
        ((Mark(0x4000, clear=True),), "meta mark set meta mark ^ 0x00004000"),
        (
            (InSet((V4.daddr,), "cluster-ips-in-use"), RETURN),
            "ip daddr @cluster-ips-in-use return",
        ),
        ((VerdictMap(FRONTEND, "x"),), "ip daddr . meta l4proto . th dport vmap @x"),
        (
            (SetPriority((L4PROTO, DPORT), "x"),),
            "meta priority set meta l4proto . th dport map @x",
        ),
        ((SetPriority(),), "meta priority set none"),
        (
            (Dnat(Family.IPV4, (*FRONTEND, numgen(2)), "x"),),
            "dnat ip to ip daddr . meta l4proto . th dport . numgen random mod 2 map @x",
        ),
        (
            (Dnat(Family.IPV6, (source_hash(V6.saddr, 2),), "x"),),
            "dnat ip6 to jhash ip6 saddr mod 2 seed 0x1 map @x",
        ),
        ((Masquerade(),), "masquerade fully-random"),
        ((Reject(Family.IPV4),), "reject"),
        ((UseCounter("c"), goto("a")), 'counter name "c" goto a'),
        ((jump("a"),), "jump a"),
        # nft writes a port with its protocol's name, and leaves out the match that this implies.
        ((TCP, InSet((L4PROTO, DPORT), "x")), "meta l4proto . tcp dport @x"),
        (
            (TCP, remember("m", (V4.saddr, PRIORITY), (V4.daddr, DPORT), 90)),
            "update @m { ip saddr . meta priority timeout 1m30s : ip daddr . tcp dport }",
        ),
        (
            (TCP, VerdictMap((L4PROTO, ORIGINAL_DPORT), "x")),
            "meta l4proto tcp meta l4proto . ct original proto-dst vmap @x",
        ),
    ],
)
def test_rules_are_written_as_nft_lists_them(rule: Rule, expected: str) -> None:
    assert expected == rule_text(rule)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(1, "1s"), (60, "1m"), (90, "1m30s"), (10800, "3h"), (86400, "1d"), (93784, "1d2h3m4s")],
)
def test_times(seconds: int, expected: str) -> None:
    assert expected == timeout_text(1000 * seconds)


@pytest.mark.parametrize(
    ("set_", "elements", "expected"),
    [
        pytest.param(
            Set("ips", (V4.daddr,), "addresses"),
            ["10.0.0.1", "10.0.0.2"],
            """
            set ips {
                type ipv4_addr
                comment "addresses"
                elements = { 10.0.0.1,
                10.0.0.2 }
            }""",
            id="a-set",
        ),
        pytest.param(
            Set("ranges", (*FRONTEND, V4.saddr), "ranges", interval=True, counter=True),
            [],
            """
            set ranges {
                type ipv4_addr . inet_proto . inet_service . ipv4_addr
                flags interval
                counter
                comment "ranges"
            }""",
            id="ranges-that-count",
        ),
        pytest.param(
            Set("v", FRONTEND, "verdicts", verdicts=True),
            [],
            """
            map v {
                type ipv4_addr . inet_proto . inet_service : verdict
                comment "verdicts"
            }""",
            id="a-verdict-map",
        ),
        pytest.param(
            Set("n", FRONTEND, "numbers", (PRIORITY,)),
            [],
            """
            map n {
                type ipv4_addr . inet_proto . inet_service : classid
                comment "numbers"
            }""",
            id="a-map-by-types",
        ),
        pytest.param(
            Set(
                "p",
                (V4.saddr, PRIORITY),
                "pins",
                (V4.daddr, DPORT),
                typeof=True,
                dynamic=True,
                size=9,
            ),
            [],
            """
            map p {
                typeof ip saddr . meta priority : ip daddr . th dport
                size 9
                flags dynamic,timeout
                comment "pins"
            }""",
            id="a-map-by-selectors-that-packets-fill",
        ),
        pytest.param(
            Set("k", (V4.saddr, PRIORITY), "keys", typeof=True),
            [],
            """
            set k {
                typeof ip saddr . meta priority
                comment "keys"
            }""",
            id="a-set-by-selectors",
        ),
    ],
)
def test_sets(set_: Set, elements: list[str], expected: str) -> None:
    written = [line.strip() for line in "\n".join(set_lines(set_, elements)).splitlines()]
    assert [line.strip() for line in expected.strip().splitlines()] == written


def test_a_whole_table() -> None:
    made = Program(
        Family.IPV6,
        "kube-proxy",
        "rules",
        ("count",),
        (Set("ips", (V6.daddr,), "addresses"),),
        (Chain("in", ((jump("c"),),), Hook("filter", "input", 1, 0, "filter")),),
    )
    expected = """\
table ip6 kube-proxy {
	comment "rules"
	counter count {
		packets 0 bytes 0
	}

	set ips {
		type ipv6_addr
		comment "addresses"
		elements = { ::1 }
	}

	chain in {
		type filter hook input priority filter; policy accept;
		jump c
	}

	chain c {
		drop
	}
}
"""
    assert expected == render(made, [Chain("c", ((DROP,),))], {"ips": ["::1"]})


@pytest.mark.parametrize("family", Family)
def test_every_rule_of_the_program_has_a_text(family: Family) -> None:
    made = program(with_node(node(Mode.NFTABLES, family), localhost_gate=True), SETTINGS)
    text = "\n".join(line for chain in made.chains for line in chain_lines(chain))
    assert text.count("{\n") + text.count("\t}") == 2 * len(made.chains)
    wrong = "ip6 daddr" if family is Family.IPV4 else "ip daddr"
    assert wrong not in text
