from collections.abc import Sequence

import pytest

from kubeproxy.dataplane.nftables.fastpath import table
from kubeproxy.linux.netlink import nftables as nft
from kubeproxy.linux.netlink.message import Message, decode

MANY = tuple(sorted(f"veth{number}" for number in range(450)))


def sent(messages: Sequence[bytes]) -> list[Message]:
    return [message for data in messages for message in decode(data)]


def devices(messages: Sequence[bytes], kind: int) -> list[tuple[str, ...]]:
    """The devices of each message about the flowtable."""
    return [nft.flowtable_devices(each) for each in sent(messages) if each.type == kind]


def names(messages: Sequence[bytes], kind: int) -> tuple[str, ...]:
    """What messages say about the set of interfaces."""
    about = [each for each in sent(messages) if each.type == kind]
    return table.names_in(each for each in about if b"interfaces\0" in each.payload)


def test_a_replacement_has_all_of_it_whether_or_not_there_is_a_table() -> None:
    messages = table.replacement(table.wanted(("eth0", "veth1"), 20))
    kinds = [each.type for each in sent(messages)]
    assert kinds[:3] == [nft.NFT_MSG_NEWTABLE, nft.NFT_MSG_DELTABLE, nft.NFT_MSG_NEWTABLE]
    assert kinds[-2:] == [nft.NFT_MSG_NEWCHAIN, nft.NFT_MSG_NEWRULE]
    assert devices(messages, nft.NFT_MSG_NEWFLOWTABLE) == [(), ("eth0", "veth1")]
    assert names(messages, nft.NFT_MSG_NEWSETELEM) == ("eth0", "veth1")


def test_without_a_device_there_is_still_a_table() -> None:
    messages = table.replacement(table.wanted((), 20))
    assert devices(messages, nft.NFT_MSG_NEWFLOWTABLE) == [()]
    assert names(messages, nft.NFT_MSG_NEWSETELEM) == ()


def test_more_devices_than_one_message_takes() -> None:
    messages = table.replacement(table.wanted(MANY, 20))
    portions = devices(messages, nft.NFT_MSG_NEWFLOWTABLE)
    assert [len(portion) for portion in portions] == [0, 200, 200, 50]
    assert names(messages, nft.NFT_MSG_NEWSETELEM) == MANY


@pytest.mark.parametrize(
    ("in_flowtable", "in_set", "flowtable", "set_"),
    [
        pytest.param("a b", "a b", "", "", id="nothing-changed"),
        pytest.param("a", "a", "+b", "+b", id="a-device-came"),
        pytest.param("a b", "a b c", "", "-c", id="gone-and-let-go-by-the-kernel"),
        pytest.param("a b c", "a b c", "-c", "-c", id="gone-and-kept-by-its-name"),
        pytest.param("a c", "a c", "+b -c", "+b -c", id="one-for-another"),
    ],
)
def test_a_difference_is_no_more_than_that(
    in_flowtable: str, in_set: str, flowtable: str, set_: str
) -> None:
    want = table.wanted(("a", "b"), 20)
    found = table.Found(tuple(in_flowtable.split()), tuple(in_set.split()), want.rules)
    messages = table.difference(found, want)
    added = devices(messages, nft.NFT_MSG_NEWFLOWTABLE)
    removed = devices(messages, nft.NFT_MSG_DELFLOWTABLE)
    changed = [*(f"+{name}" for (name,) in added), *(f"-{name}" for (name,) in removed)]
    assert flowtable.split() == changed
    changed = [f"+{name}" for name in names(messages, nft.NFT_MSG_NEWSETELEM)]
    changed += [f"-{name}" for name in names(messages, nft.NFT_MSG_DELSETELEM)]
    assert set_.split() == changed


def test_more_devices_than_the_kernel_can_list() -> None:
    """All are added once more, which changes nothing; those that are gone, one by one."""
    want = table.wanted(("a", "b"), 20)
    found = table.Found(None, ("a", "c", "d"), want.rules)
    messages = table.difference(found, want)
    assert devices(messages, nft.NFT_MSG_NEWFLOWTABLE) == [("a", "b")]
    assert devices(messages, nft.NFT_MSG_DELFLOWTABLE) == []
    assert names(messages, nft.NFT_MSG_NEWSETELEM) == ("b",)
    gone = table.lost_names(found, want)
    assert devices(gone, nft.NFT_MSG_DELFLOWTABLE) == [("c",), ("d",)]
    assert table.lost_names(want, want) == []


def test_the_number_of_packets_is_in_the_rule() -> None:
    assert (20).to_bytes(8, "big") in table.rule(20)
    assert table.rule(20) != table.rule(21)


def test_what_is_requested() -> None:
    assert b"kube-proxy-fast-path\0" in table.flowtable_named()
    assert b"forward\0" in table.rules_named()
