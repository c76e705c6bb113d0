"""The table of the fast path, as messages for the kernel, and what the kernel says about it.

It serves both IP families. Its one rule comes after those of others on the forward hook, so that
what these drop is not taken from them. Both devices of a connection must take part: the kernel
would let any other device send on what comes in by one that does.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from kubeproxy.base.inet import Protocol
from kubeproxy.dataplane.nftables import language as lang
from kubeproxy.dataplane.nftables.encode import key_size, set_userdata
from kubeproxy.dataplane.nftables.expressions import encode_rule, expression, load, register
from kubeproxy.linux.netlink import nftables as nft
from kubeproxy.linux.netlink.attribute import attribute, nested, text, u32
from kubeproxy.linux.netlink.message import NLM_F_APPEND, NLM_F_CREATE, Message, attributes
from kubeproxy.linux.netlink.nfnetlink import NFPROTO_INET, attributes_in, request

TABLE = "kube-proxy-fast-path"
FLOWTABLE = "f"
CHAIN = "forward"
INTERFACES, PROTOCOLS = "interfaces", "protocols"

_FORWARD, _AFTER_OTHERS = 2, 10  # the hook, and its priority: nft's "filter + 10"
_INGRESS, _BEFORE_RULES = 0, 0
_MOST_AT_ONCE = 200
"""The kernel takes 256 devices in one message."""

_NAME = lang.Datatype("ifname", 41, 16, host_order=True)
_IIFNAME = lang.Selector("iifname", _NAME, lang.Meta(nft.NFT_META_IIFNAME))
_OIFNAME = lang.Selector("oifname", _NAME, lang.Meta(nft.NFT_META_OIFNAME))
_PACKETS = lang.Selector(
    "ct original packets",
    lang.Datatype("integer", 4, 8, host_order=True),
    lang.Ct(nft.NFT_CT_PKTS, lang.Direction.ORIGINAL),
)
_ESTABLISHED = lang.Match(
    "ct state established", lang.CT_STATE, bytes(4), (2).to_bytes(4, "little"), negate=True
)
_SETS = (
    lang.Set(INTERFACES, (_IIFNAME,), "what takes part"),
    lang.Set(PROTOCOLS, (lang.L4PROTO,), "what has connections"),
)


class Found(msgspec.Struct, frozen=True):
    """What the kernel has: the flowtable's devices, the set's, and the rules of the chain.

    The kernel does not say which devices there are when they do not fit into its answer of 4 KB:
    None.
    """

    devices: tuple[str, ...] | None
    interfaces: tuple[str, ...]
    rules: tuple[bytes, ...]


def wanted(devices: tuple[str, ...], packets: int) -> Found:
    """What the kernel should have; connections take the fast path after so many packets."""
    return Found(devices, devices, (rule(packets),))


def rule(packets: int) -> bytes:
    """The expressions of the rule."""
    first = encode_rule((lang.TRANSLATED, _ESTABLISHED))
    then = encode_rule(
        (
            lang.InSet((lang.L4PROTO,), PROTOCOLS),
            lang.InSet((_IIFNAME,), INTERFACES),
            lang.InSet((_OIFNAME,), INTERFACES),
        )
    )
    offload = expression("flow_offload", text(nft.NFTA_FLOW_TABLE_NAME, FLOWTABLE))
    return first + _sent_more_than(packets) + then + offload


def _sent_more_than(packets: int) -> bytes:
    """The client sent more packets than that."""
    number = attribute(nft.NFTA_DATA_VALUE, packets.to_bytes(_PACKETS.type.size, "big"))
    return load(lang.Selector("", _PACKETS.type, lang.NetworkOrder(_PACKETS)), 0) + expression(
        "cmp",
        u32(nft.NFTA_CMP_SREG, register(0)),
        u32(nft.NFTA_CMP_OP, nft.NFT_CMP_GT),
        nested(nft.NFTA_CMP_DATA, number),
    )


def replacement(want: Found) -> list[bytes]:
    """Make the table anew, whether or not there is one: all connections leave the fast path."""
    return [
        _new_table(),
        removal(),
        _new_table(),
        _new_flowtable(),
        *_flowtables(nft.NFT_MSG_NEWFLOWTABLE, want.interfaces),
        *map(_new_set, range(1, len(_SETS) + 1), _SETS),
        _elements(nft.NFT_MSG_NEWSETELEM, PROTOCOLS, _protocols()),
        *_interfaces(nft.NFT_MSG_NEWSETELEM, want.interfaces),
        _new_chain(),
        *map(_new_rule, want.rules),
    ]


def difference(found: Found, want: Found) -> list[bytes]:
    """Make what the kernel has into what is wanted; connections stay on the fast path."""
    there = set(found.devices or ())
    lost = sorted(there.difference(want.interfaces))
    come = sorted(set(want.interfaces) - there)  # to add one that is there changes nothing
    return [
        *_flowtables(nft.NFT_MSG_NEWFLOWTABLE, come),
        *_flowtables(nft.NFT_MSG_DELFLOWTABLE, lost),
        *_interfaces(nft.NFT_MSG_DELSETELEM, sorted(set(found.interfaces) - set(want.interfaces))),
        *_interfaces(nft.NFT_MSG_NEWSETELEM, sorted(set(want.interfaces) - set(found.interfaces))),
    ]


def lost_names(found: Found, want: Found) -> list[bytes]:
    """Remove each device that is gone, where it is not known whether the flowtable has it yet.

    Each in a transaction of its own: ENOENT says that the kernel has removed it.
    """
    if found.devices is not None:
        return []
    gone = sorted(set(found.interfaces) - set(want.interfaces))
    return [_flowtable(nft.NFT_MSG_DELFLOWTABLE, (name,)) for name in gone]


def removal() -> bytes:
    """Remove the table, with all that is in it: all connections leave the fast path."""
    return _of_table(nft.NFT_MSG_DELTABLE, text(nft.NFTA_TABLE_NAME, TABLE))


def flowtable_named() -> bytes:
    """What a request for the flowtable says."""
    return text(nft.NFTA_FLOWTABLE_TABLE, TABLE) + text(nft.NFTA_FLOWTABLE_NAME, FLOWTABLE)


def rules_named() -> bytes:
    """What a request for the rules says."""
    return text(nft.NFTA_RULE_TABLE, TABLE) + text(nft.NFTA_RULE_CHAIN, CHAIN)


def names_in(elements: Iterable[Message]) -> tuple[str, ...]:
    """The devices in the set, sorted."""
    return tuple(sorted(name for message in elements for name in _names(message)))


def _names(message: Message) -> Iterator[str]:
    parts = attributes_in(message).get(nft.NFTA_SET_ELEM_LIST_ELEMENTS, b"")
    for element in nft.items(parts):
        key = attributes(attributes(element)[nft.NFTA_SET_ELEM_KEY])[nft.NFTA_DATA_VALUE]
        yield key.rstrip(b"\0").decode()


def _of_table(kind: int, payload: bytes, flags: int = 0) -> bytes:
    return request(kind, NFPROTO_INET, payload, flags)


def _new_table() -> bytes:
    return _of_table(nft.NFT_MSG_NEWTABLE, text(nft.NFTA_TABLE_NAME, TABLE), NLM_F_CREATE)


def _new_flowtable() -> bytes:
    """Make the flowtable, without devices. Its connections are counted as all others are."""
    counts = u32(nft.NFTA_FLOWTABLE_FLAGS, nft.NFT_FLOWTABLE_COUNTER)
    return _flowtable(nft.NFT_MSG_NEWFLOWTABLE, (), counts)


def _flowtables(kind: int, devices: Sequence[str]) -> Iterator[bytes]:
    """Add devices to the flowtable, or remove them."""
    for at in range(0, len(devices), _MOST_AT_ONCE):
        yield _flowtable(kind, devices[at : at + _MOST_AT_ONCE])


def _flowtable(kind: int, devices: Sequence[str], further: bytes = b"") -> bytes:
    named = (text(nft.NFTA_DEVICE_NAME, name) for name in devices)
    hook = nested(
        nft.NFTA_FLOWTABLE_HOOK,
        u32(nft.NFTA_FLOWTABLE_HOOK_NUM, _INGRESS),
        u32(nft.NFTA_FLOWTABLE_HOOK_PRIORITY, _BEFORE_RULES),
        nested(nft.NFTA_FLOWTABLE_HOOK_DEVS, *named) if devices else b"",
    )
    flags = NLM_F_CREATE if kind == nft.NFT_MSG_NEWFLOWTABLE else 0
    return _of_table(kind, flowtable_named() + hook + further, flags)


def _new_set(number: int, set_: lang.Set) -> bytes:
    payload = text(nft.NFTA_SET_TABLE, TABLE) + text(nft.NFTA_SET_NAME, set_.name)
    payload += u32(nft.NFTA_SET_KEY_TYPE, set_.key[0].type.number)
    payload += u32(nft.NFTA_SET_KEY_LEN, key_size(set_.key)) + u32(nft.NFTA_SET_ID, number)
    payload += attribute(nft.NFTA_SET_USERDATA, set_userdata(set_))
    return _of_table(nft.NFT_MSG_NEWSET, payload, NLM_F_CREATE)


def _protocols() -> list[bytes]:
    return [bytes([Protocol.TCP]), bytes([Protocol.UDP])]


def _interfaces(kind: int, names: Iterable[str]) -> Iterator[bytes]:
    keys = [name.encode().ljust(_NAME.size, b"\0") for name in names]
    if keys:
        yield _elements(kind, INTERFACES, keys)


def _elements(kind: int, name: str, keys: Iterable[bytes]) -> bytes:
    elements = (
        nested(
            nft.NFTA_LIST_ELEM,
            nested(nft.NFTA_SET_ELEM_KEY, attribute(nft.NFTA_DATA_VALUE, key)),
        )
        for key in keys
    )
    flags = NLM_F_CREATE if kind == nft.NFT_MSG_NEWSETELEM else 0
    return _of_table(kind, nft.set_elements(TABLE, name, *elements), flags)


def _new_chain() -> bytes:
    payload = text(nft.NFTA_CHAIN_TABLE, TABLE) + text(nft.NFTA_CHAIN_NAME, CHAIN)
    payload += nested(
        nft.NFTA_CHAIN_HOOK,
        u32(nft.NFTA_HOOK_HOOKNUM, _FORWARD),
        u32(nft.NFTA_HOOK_PRIORITY, _AFTER_OTHERS),
    )
    payload += u32(nft.NFTA_CHAIN_POLICY, nft.NF_ACCEPT) + text(nft.NFTA_CHAIN_TYPE, "filter")
    return _of_table(nft.NFT_MSG_NEWCHAIN, payload, NLM_F_CREATE)


def _new_rule(expressions: bytes) -> bytes:
    payload = rules_named() + nested(nft.NFTA_RULE_EXPRESSIONS, expressions)
    return _of_table(nft.NFT_MSG_NEWRULE, payload, NLM_F_CREATE | NLM_F_APPEND)
