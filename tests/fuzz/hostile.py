"""Hostile inputs: valid ones, with parts exchanged, cut, repeated."""

from collections.abc import Mapping, Sequence
from typing import cast

from hypothesis import strategies as st

Json = object

VALUES: Sequence[Json] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        80,
        65535,
        65536,
        70_000,
        2**31,
        2**63,
        2**64,
        10**30,
        1.5,
        1e300,
    ),
    *("", "x", "None", "\0", "\n", 'a"b', "\u00e9", "\U0001f600", "a" * 300, "%s", "-1", "1e9"),
    *("0.0.0.0", "127.0.0.1", "255.255.255.255", "10.112.0.1", "::", "::1", "fd12::1", "1.2.3"),
    *("0.0.0.0/0", "10.0.0.0/33", "::/0", "TCP", "UDP", "SCTP", "ICMP", "IPv4", "IPv6", "FQDN"),
    *("ClientIP", "Local", "LoadBalancer", "ExternalName", "2026-01-01T00:00:00Z"),
    *([], {}, [None], [[]], {"": None}, ["0.0.0.0", "0.0.0.0"], [{}], [{"ip": "0.0.0.0"}]),
)
values = st.sampled_from(VALUES)


@st.composite
def exchanged(draw: st.DrawFn, document: Json) -> Json:
    """A document in which some values, wherever they are, are others."""
    for _ in range(draw(st.integers(1, 4))):
        document = draw(_exchanged_once(document))
    return document


@st.composite
def _exchanged_once(draw: st.DrawFn, document: Json) -> Json:
    here = draw(st.integers(0, 5)) == 0
    if isinstance(document, dict) and document and not here:
        fields = cast("Mapping[str, Json]", document)
        key = draw(st.sampled_from(sorted(fields)))
        return {**fields, key: draw(_exchanged_once(fields[key]))}
    if isinstance(document, list) and document and not here:
        place = draw(st.integers(0, len(document) - 1))
        inner = draw(_exchanged_once(document[place]))
        return [*document[:place], inner, *document[place + draw(st.integers(0, 1)) :]]
    return draw(values)


@st.composite
def mutated(draw: st.DrawFn, seeds: Sequence[bytes]) -> bytes:
    """Bytes of a good input with some of them cut out, repeated or others."""
    data = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(0, 6))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 40)))
        part = data[start:end]
        new = draw(st.one_of(st.binary(max_size=8), st.just(part * 3), st.sampled_from(_BYTES)))
        data = data[:start] + new + data[end:]
    return data


_BYTES = (
    *(b"", b"\0", b"\xff", b"\n", b"\r\n\r\n", b" ", b":", b"{", b"}", b"[", b'"', b"&a ", b"*a"),
    *(b"<<: *a", b"- ", b"? ", b"!!int ", b"!!bool ", b"0x_", b"\\ud800", b"\xed\xa0\x80", b"%00"),
    *(b"9" * 500, b"[" * 300, b'{"a":' * 300, b"\xff\xff\xff\xff", bytes(4), b"\x04\0\1\0"),
)
