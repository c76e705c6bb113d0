import pytest

from kubeproxy.base import gotext


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("plain", '"plain"', id="printable-text-is-only-quoted"),
        pytest.param("", '""', id="nothing-is-two-quotes"),
        pytest.param('say "x"', r'"say \"x\""', id="quotes-are-escaped"),
        pytest.param("a\\b", r'"a\\b"', id="backslashes-are-escaped"),
        pytest.param("\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"', id="named-control-characters"),
        pytest.param("\x00\x1b\x7f", r'"\x00\x1b\x7f"', id="other-control-characters-as-bytes"),
        pytest.param("é世😀", '"é世😀"', id="printable-unicode-stays"),
        pytest.param("\u00a0\u200b", r'"\u00a0\u200b"', id="invisible-characters-as-four-digits"),
        pytest.param("\U000e0001", r'"\U000e0001"', id="beyond-16-bits-as-eight-digits"),
        pytest.param("\udcff", r'"\xff"', id="an-undecodable-byte-as-that-byte"),
        pytest.param("\ud800", r'"\ufffd"', id="a-lone-surrogate-as-replacement"),
    ],
)
def test_quote(text: str, expected: str) -> None:
    assert expected == gotext.quote(text)


@pytest.mark.parametrize(
    ("nanoseconds", "expected"),
    [
        pytest.param(0, "0s", id="zero"),
        pytest.param(1, "1ns", id="one-nanosecond"),
        pytest.param(1_500, "1.5µs", id="microseconds"),
        pytest.param(500_000_000, "500ms", id="milliseconds"),
        pytest.param(99_100_000, "99.1ms", id="milliseconds-with-decimals"),
        pytest.param(1_000_000_000, "1s", id="one-second"),
        pytest.param(90_000_000_000, "1m30s", id="minutes-and-seconds"),
        pytest.param(900_000_000_000, "15m0s", id="minutes-keep-zero-seconds"),
        pytest.param(3_600_000_000_000, "1h0m0s", id="hours-keep-zero-minutes"),
        pytest.param(3_600_000_000_001, "1h0m0.000000001s", id="hours-with-a-nanosecond"),
        pytest.param(-1_500_000_000, "-1.5s", id="negative"),
    ],
)
def test_duration(nanoseconds: int, expected: str) -> None:
    assert expected == gotext.duration(nanoseconds)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(5.0, "5", id="whole-numbers-have-no-point"),
        pytest.param(0.0, "0", id="zero"),
        pytest.param(-2.5, "-2.5", id="negative"),
        pytest.param(1e16, "10000000000000000", id="large-ones-are-written-out"),
        pytest.param(1.2345678901234568e18, "1234567890123456800", id="with-their-digits-only"),
        pytest.param(1e21, "1e+21", id="very-large-ones-have-an-exponent"),
        pytest.param(1.25e22, "1.25e+22", id="very-large-ones-keep-their-digits"),
        pytest.param(1.5e-5, "0.000015", id="small-ones-are-written-out"),
        pytest.param(1.2e-7, "1.2e-7", id="very-small-ones-have-an-exponent"),
        pytest.param(float("nan"), '"NaN"', id="not-a-number-is-text"),
        pytest.param(float("inf"), '"+Inf"', id="infinity-is-text"),
        pytest.param(float("-inf"), '"-Inf"', id="negative-infinity-is-text"),
    ],
)
def test_number(value: float, expected: str) -> None:
    assert expected == gotext.number(value)
