"""Names and addresses that are hidden: all of them, and each the same everywhere."""

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeproxy.tools.bundle.hide import (
    hidden,
    hiding_addresses,
    hiding_names,
    names_in,
    names_in_text,
    replacements,
)

SECRET = b"k" * 16
addresses = hiding_addresses(SECRET)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"Opened" service="shop/cart:http"', {("shop", "namespace"), ("cart", "service")}),
        ('"Started" node="kestrel.example"', {("kestrel.example", "node")}),
        ("https://api.example:6443/x", {("api.example", "host")}),
        ("https://192.0.2.1:6443", set()),
        ("80/TCP 10.64.0.0/14 5/2 /run/kube-proxy/status.sock net/ipv4/tcp", set()),
    ],
)
def test_what_is_taken_for_a_name(text: str, expected: set[tuple[str, str]]) -> None:
    assert set(names_in_text(text)) == expected


def test_names_in_fields() -> None:
    data = (
        b'{"node":{"name":"kestrel"},"x":[{"namespace":"shop","service":"cart"}],"service":null}\n'
    )
    assert set(names_in("table.jsonl", data)) == {
        ("kestrel", "node"),
        ("shop", "namespace"),
        ("cart", "service"),
    }


def test_names_in_what_is_no_json() -> None:
    assert set(names_in("log.txt", b'node="kestrel"')) == {("kestrel", "node")}


def test_each_name_has_one_replacement_and_those_of_every_cluster_stay() -> None:
    found = [("shop", "namespace"), ("cart", "service"), ("shop", "service"), ("", "node")]
    new = replacements([*found, ("till", "service"), ("kube-system", "namespace")])
    assert new == {"shop": "namespace-1", "cart": "service-1", "till": "service-2"}
    replace = hiding_names(new)
    assert replace("shop/cart:http cart.shop.svc my-cart carts cart, till-1") == (
        "namespace-1/service-1:http service-1.namespace-1.svc my-cart carts service-1, till-1"
    )


def test_a_host_name_is_replaced_as_a_whole() -> None:
    replace = hiding_names({"a.example": "node-1", "example": "service-1"})
    assert replace("a.example b.example") == "node-1 b.service-1"


@given(st.ip_addresses(), st.ip_addresses(), st.integers(0, 32))
def test_those_with_a_common_prefix_still_have_one(
    one: object, other: object, length: int
) -> None:
    first, second = ip_address(str(one)), ip_address(str(other))
    skipped = first.is_loopback or first.is_unspecified or second.is_loopback
    if first.version != second.version or skipped or second.is_unspecified:
        return
    before = ip_network(f"{first}/{length}", strict=False)
    after = ip_network(f"{addresses(str(first))}/{length}", strict=False)
    assert (second in before) == (ip_address(addresses(str(second))) in after)
    assert addresses(str(before)).endswith(f"/{length}")


@pytest.mark.parametrize(
    "text",
    [
        *("127.0.0.1:10249", "[::1]:80", "0.0.0.0:10256", "::", "12:00:01.5", "999.1.1.1"),
        *("1.2.3.4.5", "v1.30.2", "a:b:c:d:e:f:g:h:1"),
    ],
)
def test_what_is_no_address_of_anybody_stays(text: str) -> None:
    assert addresses(text) == text


@pytest.mark.parametrize(
    "text",
    ["10.0.0.1:80", "[2001:db8::7]:80", "10.0.0.0/8", "-s 10.0.0.1/32 -j", "10.0.0.1-10.0.0.9"],
)
def test_addresses_go_wherever_they_stand(text: str) -> None:
    assert addresses(text) != text
    assert addresses(text) == hiding_addresses(SECRET)(text)
    assert "10.0.0.1" not in addresses(text)


def test_a_slash_that_is_no_prefix() -> None:
    assert addresses("10.0.0.1/99") == f"{addresses('10.0.0.1')}/99"


def test_json_keeps_the_names_of_its_fields() -> None:
    replace = hiding_names({"shop": "namespace-1"})
    data = b'{"shop":["shop",1,null,{"x":"a shop"}]}'
    assert hidden("a.json", data, replace) == (
        b'{\n  "shop": [\n    "namespace-1",\n    1,\n    null,\n'
        b'    {\n      "x": "a namespace-1"\n    }\n  ]\n}'
    )
    assert hidden("a.jsonl", b'"shop"\n"x"\n', replace) == b'"namespace-1"\n"x"\n'
    assert hidden("a.txt", b"shop \xff", replace).startswith(b"namespace-1 ")
