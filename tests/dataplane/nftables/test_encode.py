import pytest

from dataplane.nftables.netlinktext import message_lines
from dataplane.nftables.programming import SETTINGS
from fakes.ruleset import number_of
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.nftables.encode import (
    delete_chain,
    delete_table,
    key_size,
    new_chain,
    new_counter,
    new_rule,
    new_set,
    new_table,
    set_userdata,
)
from kubeproxy.dataplane.nftables.language import (
    DPORT,
    DROP,
    HEADERS,
    L4PROTO,
    ORIGINAL_DPORT,
    PRIORITY,
    Chain,
    Hook,
    Set,
    numgen,
)
from kubeproxy.dataplane.nftables.program import program
from kubeproxy.linux.netlink.message import (
    NLM_F_APPEND,
    NLM_F_CREATE,
    NLM_F_REQUEST,
    attributes,
    decode,
)
from world import Mode, node

PROGRAM = program(node(Mode.NFTABLES), SETTINGS)
IPV6_PROGRAM = program(node(Mode.NFTABLES, Family.IPV6), SETTINGS)
V4, V6 = HEADERS[Family.IPV4], HEADERS[Family.IPV6]
FRONTEND = (V4.daddr, L4PROTO, DPORT)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (new_table(PROGRAM), ["add table ip kube-proxy"]),
        (new_table(IPV6_PROGRAM), ["add table ip6 kube-proxy"]),
        (delete_table(Family.IPV6, "kube-proxy"), ["delete table ip6 kube-proxy"]),
        (new_chain(PROGRAM, Chain("pick-2", ())), ["add chain ip kube-proxy pick-2"]),
        (delete_chain(PROGRAM, "pick-2"), ["delete chain ip kube-proxy pick-2"]),
        (new_counter(PROGRAM, "localhost-tcp"), ["add counter ip kube-proxy localhost-tcp"]),
        (new_set(PROGRAM, PROGRAM.sets[0], 1), ["add set ip kube-proxy cluster-ips-in-use"]),
        (
            new_rule(PROGRAM, "pick-2", (DROP,)),
            ["add rule ip kube-proxy pick-2", "[ immediate reg 0 drop ]"],
        ),
    ],
)
def test_messages_name_their_objects(message: bytes, expected: list[str]) -> None:
    assert expected == message_lines(message)


@pytest.mark.parametrize(
    ("message", "flags"),
    [
        pytest.param(new_table(PROGRAM), NLM_F_CREATE, id="a-table-is-made"),
        pytest.param(new_rule(PROGRAM, "x", ()), NLM_F_CREATE | NLM_F_APPEND, id="rules-are-last"),
        pytest.param(delete_chain(PROGRAM, "x"), 0, id="deleting-makes-nothing"),
    ],
)
def test_flags(message: bytes, flags: int) -> None:
    assert [NLM_F_REQUEST | flags] == [each.flags for each in decode(message)]


def test_a_base_chain_says_where_it_stands() -> None:
    hook = Hook("nat", "output", 3, -100, "-100")
    (message,) = decode(new_chain(PROGRAM, Chain("nat/output", (), hook)))
    said = attributes(message.payload[4:])
    place = attributes(said[4])
    assert number_of(place[1]) == 3
    assert int.from_bytes(place[2], "big", signed=True) == -100
    assert number_of(said[5]) == 1  # accept
    assert said[7] == b"nat\0"


def declared(set_: Set) -> dict[int, bytes]:
    (message,) = decode(new_set(PROGRAM, set_, 3))
    return attributes(message.payload[4:])


@pytest.mark.parametrize(
    ("set_", "flags", "key", "data"),
    [
        pytest.param(Set("s", (V4.daddr,), ""), None, (7, 4), None, id="addresses"),
        pytest.param(Set("s", (V6.daddr,), ""), None, (8, 16), None, id="ipv6-addresses"),
        pytest.param(
            Set("s", FRONTEND, ""), None, (7 << 12 | 12 << 6 | 13, 12), None, id="concatenation"
        ),
        pytest.param(Set("s", (V4.daddr,), "", interval=True), 0x4, (7, 4), None, id="ranges"),
        pytest.param(
            Set("s", (L4PROTO, V4.saddr), "", interval=True),
            0x84,
            (12 << 6 | 7, 8),
            None,
            id="ranges-in-a-concatenation",
        ),
        pytest.param(
            Set("s", (L4PROTO, DPORT), "", verdicts=True),
            0x8,
            (12 << 6 | 13, 8),
            (0xFFFFFF00, 16),
            id="verdicts",
        ),
        pytest.param(
            Set("s", (L4PROTO, DPORT), "", (PRIORITY,)), 0x8, (781, 8), (23, 4), id="numbers"
        ),
        pytest.param(
            Set("s", (V4.saddr, PRIORITY), "", (V4.daddr, DPORT), dynamic=True, size=65535),
            0x38,
            (7 << 6 | 23, 8),
            (7 << 6 | 13, 8),
            id="filled-by-packets",
        ),
    ],
)
def test_declarations(
    set_: Set, flags: int | None, key: tuple[int, int], data: tuple[int, int] | None
) -> None:
    said = {kind: number_of(value) for kind, value in declared(set_).items() if len(value) == 4}
    assert (flags, *key) == (said.get(3), said[4], said[5])
    assert data == ((said[6], said[7]) if 6 in said else None)
    assert said[10] == 3


def test_sets_say_their_size_or_the_fields_of_their_ranges() -> None:
    assert number_of(attributes(declared(Set("s", FRONTEND, "", size=9))[9])[1]) == 9
    assert declared(Set("s", FRONTEND, ""))[9] == b""
    described = attributes(declared(Set("s", (L4PROTO, V4.saddr), "", interval=True))[9])
    assert described[2].hex() == "0c0001000800010000000001" + "0c0001000800010000000004"


@pytest.mark.parametrize("counter", [True, False])
def test_elements_count_when_the_set_says_so(counter: bool) -> None:
    assert counter is (17 in declared(Set("s", FRONTEND, "", counter=counter)))


def test_a_key_fills_words() -> None:
    assert key_size((L4PROTO,)) == 1
    assert key_size((L4PROTO, DPORT)) == 8
    assert key_size((*FRONTEND, numgen(2))) == 16


# What nft 1.0.6 writes beside the same sets, read from the kernel after loading them as text.
@pytest.mark.parametrize(
    ("set_", "expected"),
    [
        pytest.param(
            Set("s", (V4.daddr,), "hi"), "000402000000 0703686900", id="the-order-of-bytes"
        ),
        pytest.param(
            Set("s", (V4.daddr, L4PROTO), "hi"),
            "000400000000 0308 00040d000000 0100 0703686900",
            id="a-concatenation",
        ),
        pytest.param(
            Set("s", (V4.daddr,), "hi", verdicts=True),
            "000402000000 010400000000 060400000000 0703686900",
            id="a-verdict-map",
        ),
        pytest.param(
            Set("s", (V4.daddr,), "hi", (PRIORITY,)),
            "000402000000 010401000000 060400000000 0703686900",
            id="numbers-are-in-the-order-of-the-machine",
        ),
        pytest.param(
            Set("s", (V4.saddr, PRIORITY), "hi", (V4.daddr, DPORT), typeof=True),
            "000400000000 010400000000"
            " 032e 00040d000000 0126"
            "   0014 000407000000 010c 00040c000000 01040b000000"
            "   010e 000409000000 0106 000402000000"
            " 0434 00040d000000 012c"
            "   0014 000407000000 010c 00040c000000 01040c000000"
            "   0114 000407000000 010c 00040b000000 010402000000"
            " 060400000000 0703686900",
            id="by-selectors",
        ),
    ],
)
def test_user_data_is_what_nft_keeps_beside_a_set(set_: Set, expected: str) -> None:
    assert expected.replace(" ", "") == set_userdata(set_).hex()


def test_a_set_cannot_be_declared_by_what_nft_has_no_words_for() -> None:
    with pytest.raises(TypeError, match="ct original proto-dst"):
        set_userdata(Set("s", (ORIGINAL_DPORT,), "", typeof=True))
