"""What guides the inputs: lines of ours that none has reached before."""

import pytest

from fuzz import rounds
from fuzz.rounds import fuzz_bytes, reached
from kubeproxy.base.inet import parse_prefix


def test_lines_of_ours_are_seen_and_no_others() -> None:
    with reached() as none:
        "10.0.0.0/8".partition("/")
    with reached() as some:
        parse_prefix("10.0.0.0/8")
    with reached() as others:
        parse_prefix("x")
    assert not none
    assert some - others


def test_an_input_that_reaches_further_becomes_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "SECONDS", 1)
    assert fuzz_bytes([b"1.2.3.4/8"], _parse) > 1


def _parse(data: bytes) -> None:
    parse_prefix(data.decode(errors="ignore"))
