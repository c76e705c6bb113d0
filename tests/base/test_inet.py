import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeproxy.base.inet import (
    Family,
    Prefix,
    contains,
    family_of,
    join,
    network,
    pack,
    pack_all,
    parse_address,
    parse_addresses,
    parse_prefix,
    unpack,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("10.0.0.1", "10.0.0.1", id="plain"),
        pytest.param("10.112.0.041", "10.112.0.41", id="leading-zeros-are-decimal"),
        pytest.param("FD00:0:0:0::1", "fd00::1", id="ipv6-is-made-canonical"),
        pytest.param("::ffff:10.0.0.1", "10.0.0.1", id="ipv4-mapped-counts-as-ipv4"),
        pytest.param("::ffff:10.0.0.010", "10.0.0.10", id="ipv4-mapped-with-leading-zero"),
        pytest.param("64:ff9b::10.0.0.010", "64:ff9b::a00:a", id="embedded-ipv4"),
        pytest.param("10.0.0", None, id="three-octets"),
        pytest.param("10.0.0.256", None, id="octet-too-large"),
        pytest.param("10.0.0.0256", None, id="octet-too-large-with-zero"),
        pytest.param(f"10.0.0.{'1' * 5000}", None, id="octet-that-python-does-not-read"),
        pytest.param("10.0.0.-1", None, id="sign"),
        pytest.param("10.0.0.1 ", None, id="blank"),
        pytest.param("10.0.0.²", None, id="digit-of-another-alphabet"),
        pytest.param("fd00::1::2", None, id="two-gaps"),
        pytest.param("zz::10.0.0.01", None, id="bad-ipv6-with-octets"),
        pytest.param("fe80::1%eth0", None, id="scope"),
        pytest.param("10.0.0.1\0", None, id="nul"),
        pytest.param("", None, id="empty"),
        pytest.param("example.org", None, id="name"),
    ],
)
def test_parse_address(text: str, expected: str | None) -> None:
    assert expected == parse_address(text)


texts = st.lists(
    st.one_of(
        st.ip_addresses().map(str),
        st.sampled_from(["10.0.0.01", "::ffff:10.0.0.1", "FD00::1", "", "10.0.0.256", "a\0"]),
    )
)


@given(st.one_of(texts, st.lists(st.ip_addresses(v=4).map(str))), st.sampled_from(Family))
def test_many_addresses_are_read_as_one_is(texts: list[str], family: Family) -> None:
    one_by_one = [parse_address(text) for text in texts]
    expected = [each if each and family_of(each) is family else None for each in one_by_one]
    assert expected == parse_addresses(texts, family)


@given(st.one_of(*(st.lists(st.ip_addresses(v=v).map(str)) for v in (4, 6))))
def test_many_addresses_are_packed_as_one_is(addresses: list[str]) -> None:
    assert [pack(address) for address in addresses] == pack_all(addresses)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("10.0.0.0/8", "10.0.0.0/8", id="plain"),
        pytest.param("10.1.2.3/8", "10.0.0.0/8", id="host-bits-are-cleared"),
        pytest.param("10.0.0.0/025", "10.0.0.0/25", id="leading-zero"),
        pytest.param("fd00::1/64", "fd00::/64", id="ipv6"),
        pytest.param("::ffff:10.0.0.0/104", "10.0.0.0/8", id="ipv4-mapped"),
        pytest.param("::ffff:10.0.0.0/8", None, id="ipv4-mapped-too-wide"),
        pytest.param("10.0.0.0/33", None, id="too-long"),
        pytest.param("0.0.0.0/00", "0.0.0.0/0", id="zero"),
        pytest.param(f"10.0.0.0/{'1' * 5000}", None, id="length-that-python-does-not-read"),
        pytest.param("10.0.0.0/-1", None, id="negative"),
        pytest.param("10.0.0.0", None, id="no-length"),
        pytest.param("10.0.0.0/", None, id="empty-length"),
        pytest.param("x/8", None, id="no-address"),
    ],
)
def test_parse_prefix(text: str, expected: str | None) -> None:
    parsed = parse_prefix(text)
    assert expected == (None if parsed is None else str(parsed))


packed = st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16)


@given(packed)
def test_packing_and_unpacking_agree_with_the_standard_library(data: bytes) -> None:
    address = ipaddress.ip_address(data)
    mapped = getattr(address, "ipv4_mapped", None)
    expected = mapped or address
    assert pack(unpack(data)) == expected.packed
    assert parse_address(str(expected)) == unpack(data)
    assert (family_of(unpack(data)) is Family.IPV4) == (expected.version == 4)


@given(packed, packed, st.integers(0, 128))
def test_contains_agrees_with_the_standard_library(base: bytes, data: bytes, length: int) -> None:
    address, other = unpack(base), unpack(data)
    length = min(length, family_of(address).bits)
    expected = ipaddress.ip_network(f"{address}/{length}", strict=False)
    prefix = network(address, length)
    assert ipaddress.ip_network(str(prefix)) == expected
    assert contains(prefix, other) == (ipaddress.ip_address(other) in expected)


def test_families() -> None:
    assert Family.IPV4.other is Family.IPV6
    assert Family.IPV6.other is Family.IPV4
    assert Prefix("fd00::", 8).family is Family.IPV6


def test_join_puts_brackets_around_ipv6() -> None:
    assert join("10.0.0.1", 80) == "10.0.0.1:80"
    assert join("fd00::1", 80) == "[fd00::1]:80"
