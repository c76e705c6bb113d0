import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeproxy.config.duration import Duration, of_seconds, parse_duration
from kubeproxy.config.errors import ValueTextError


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        pytest.param("0", 0, id="a-bare-zero"),
        pytest.param("+0", 0, id="a-bare-zero-with-a-sign"),
        pytest.param("5ns", 5, id="nanoseconds"),
        pytest.param("5us", 5_000, id="microseconds-in-ascii"),
        pytest.param("5µs", 5_000, id="microseconds-with-the-micro-sign"),
        pytest.param("5μs", 5_000, id="microseconds-with-the-greek-letter"),
        pytest.param("5ms", 5_000_000, id="milliseconds"),
        pytest.param("1h30m", 5_400_000_000_000, id="several-units"),
        pytest.param("1.5s", 1_500_000_000, id="a-fraction"),
        pytest.param(".5s", 500_000_000, id="a-fraction-alone"),
        pytest.param("1.s", 1_000_000_000, id="a-point-without-fraction"),
        pytest.param("-1.5h", -5_400_000_000_000, id="negative"),
        pytest.param("-9223372036854775808ns", -(2**63), id="the-least"),
    ],
)
def test_durations_are_read(text: str, nanoseconds: int) -> None:
    assert Duration(nanoseconds) == parse_duration(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", 'time: invalid duration ""', id="nothing"),
        pytest.param("-", 'time: invalid duration "-"', id="a-sign-alone"),
        pytest.param("5", 'time: missing unit in duration "5"', id="no-unit"),
        pytest.param("1m30", 'time: missing unit in duration "1m30"', id="no-unit-at-the-end"),
        pytest.param("5x", 'time: unknown unit "x" in duration "5x"', id="an-unknown-unit"),
        pytest.param("5 s", 'time: unknown unit " s" in duration "5 s"', id="a-blank"),
        pytest.param(".s", 'time: invalid duration ".s"', id="no-digits"),
        pytest.param("s", 'time: invalid duration "s"', id="a-unit-alone"),
        pytest.param(
            "9223372036854775808ns",
            'time: invalid duration "9223372036854775808ns"',
            id="too-long",
        ),
    ],
)
def test_what_is_no_duration_is_refused(text: str, expected: str) -> None:
    with pytest.raises(ValueTextError) as caught:
        parse_duration(text)
    assert expected == str(caught.value)


@given(st.integers(-(2**63), 2**63 - 1))
def test_what_is_written_is_read_back(nanoseconds: int) -> None:
    assert Duration(nanoseconds) == parse_duration(str(Duration(nanoseconds)))


def test_zero_is_false() -> None:
    assert not Duration()
    assert Duration(-1)


def test_seconds_are_for_clocks() -> None:
    assert of_seconds(90).seconds == 90.0
    assert Duration(500_000_000).seconds == 0.5


def test_durations_have_an_order() -> None:
    assert of_seconds(-1) < Duration() < of_seconds(1)
