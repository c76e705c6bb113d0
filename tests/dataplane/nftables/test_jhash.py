import pytest

from kubeproxy.dataplane.nftables.jhash import jhash


@pytest.mark.parametrize(
    ("data", "seed", "expected"),
    [
        # What the author of the hash, Bob Jenkins, gives for it (lookup3, hashlittle).
        (b"Four score and seven years ago", 0, 0x17770551),
        (b"Four score and seven years ago", 1, 0xCD628161),
    ],
)
def test_known_hashes(data: bytes, seed: int, expected: int) -> None:
    assert expected == jhash(data, seed)


@pytest.mark.parametrize("size", [4, 8, 12, 16, 20, 24, 36])
def test_every_byte_counts(size: int) -> None:
    hashes = {jhash(bytes(at) + b"\1" + bytes(size - at - 1), 1) for at in range(size)}
    assert len(hashes) == size
