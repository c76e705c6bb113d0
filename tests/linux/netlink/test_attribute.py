import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeproxy.linux.netlink.attribute import attribute, nested, text, u32, u64
from kubeproxy.linux.netlink.message import attributes


@pytest.mark.parametrize(
    ("encoded", "expected"),
    [
        pytest.param(attribute(3, b""), "04000300", id="empty"),
        pytest.param(attribute(3, b"a"), "05000300 61000000", id="padded-to-four-bytes"),
        pytest.param(attribute(3, b"abcd"), "08000300 61626364", id="no-padding-needed"),
        pytest.param(u32(1, 258), "08000100 00000102", id="numbers-are-in-network-order"),
        pytest.param(u32(1, -4), "08000100 fffffffc", id="negative-numbers-are-two-complement"),
        pytest.param(u64(6, 1), "0c000600 00000000 00000001", id="64-bits"),
        pytest.param(text(2, "tcp"), "08000200 74637000", id="texts-end-with-a-zero-byte"),
        pytest.param(text(2, ""), "05000200 00000000", id="so-does-the-empty-text"),
        pytest.param(nested(4), "04000400", id="nothing-inside"),
        pytest.param(
            nested(4, u32(1, 1), text(2, "a")),
            "14000400 08000100 00000001 06000200 61000000",
            id="nested-without-a-flag-as-nf_tables-dumps-it",
        ),
    ],
)
def test_bytes(encoded: bytes, expected: str) -> None:
    assert expected.replace(" ", "") == encoded.hex()


@given(st.dictionaries(st.integers(1, 0x3FFF), st.binary(max_size=50), max_size=5))
def test_what_is_put_in_is_read_back(values: dict[int, bytes]) -> None:
    data = b"".join(attribute(kind, value) for kind, value in values.items())
    assert len(data) % 4 == 0
    assert values == attributes(data)
