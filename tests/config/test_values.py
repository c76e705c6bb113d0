from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeproxy.config.errors import ValueTextError
from kubeproxy.config.values import (
    Duration,
    Quantity,
    of_seconds,
    parse_bool,
    parse_duration,
    parse_float32,
    parse_int32,
    parse_level,
    parse_quantity,
    split_host_port,
    with_port,
)

# --- numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parse", "text", "expected"),
    [
        pytest.param(parse_bool, "T", True, id="short-true"),
        pytest.param(parse_bool, "False", False, id="capital-false"),
        pytest.param(parse_int32, "-5", -5, id="negative"),
        pytest.param(parse_int32, "+5", 5, id="with-a-plus"),
        pytest.param(parse_int32, "0x1F", 31, id="hexadecimal"),
        pytest.param(parse_int32, "0b11", 3, id="binary"),
        pytest.param(parse_int32, "0o17", 15, id="octal"),
        pytest.param(parse_int32, "-017", -15, id="octal-of-old"),
        pytest.param(parse_int32, "0", 0, id="zero"),
        pytest.param(parse_int32, "1_000", 1000, id="underscores"),
        pytest.param(parse_int32, "-2147483648", -(2**31), id="the-least"),
        pytest.param(parse_level, "010", 10, id="levels-are-decimal"),
        pytest.param(parse_float32, "2.5", 2.5, id="float"),
        pytest.param(parse_float32, "-1e3", -1000.0, id="float-with-exponent"),
        pytest.param(parse_float32, "Inf", float("inf"), id="infinity"),
    ],
)
def test_values_are_read(parse: Callable[[str], object], text: str, expected: object) -> None:
    assert expected == parse(text)


@pytest.mark.parametrize(
    ("parse", "text", "expected"),
    [
        pytest.param(
            parse_bool, "x", 'strconv.ParseBool: parsing "x": invalid syntax', id="no-boolean"
        ),
        pytest.param(
            parse_int32, "abc", 'strconv.ParseInt: parsing "abc": invalid syntax', id="no-number"
        ),
        pytest.param(
            parse_int32, "09", 'strconv.ParseInt: parsing "09": invalid syntax', id="no-octal"
        ),
        pytest.param(
            parse_int32, "", 'strconv.ParseInt: parsing "": invalid syntax', id="no-digits"
        ),
        pytest.param(
            parse_int32,
            "2147483648",
            'strconv.ParseInt: parsing "2147483648": value out of range',
            id="too-large",
        ),
        pytest.param(
            parse_level, "-1", 'strconv.ParseUint: parsing "-1": invalid syntax', id="no-level"
        ),
        pytest.param(
            parse_level,
            "2147483648",
            'strconv.ParseUint: parsing "2147483648": value out of range',
            id="too-high-a-level",
        ),
        pytest.param(
            parse_float32, "x", 'strconv.ParseFloat: parsing "x": invalid syntax', id="no-float"
        ),
        pytest.param(
            parse_float32,
            "1e39",
            'strconv.ParseFloat: parsing "1e39": value out of range',
            id="too-large-for-32-bits",
        ),
        pytest.param(
            parse_float32,
            "1e999",
            'strconv.ParseFloat: parsing "1e999": value out of range',
            id="too-large-for-64-bits",
        ),
    ],
)
def test_what_is_no_value_is_refused(
    parse: Callable[[str], object], text: str, expected: str
) -> None:
    with pytest.raises(ValueTextError) as caught:
        parse(text)
    assert expected == str(caught.value)


# --- durations ----------------------------------------------------------------------------------


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


# --- sizes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("512", 512, id="bytes"),
        pytest.param("4k", 4000, id="thousands"),
        pytest.param("2Ki", 2048, id="binary-thousands"),
        pytest.param("1.5Gi", 3 * 2**29, id="fractions"),
        pytest.param("3M", 3_000_000, id="millions"),
        pytest.param("5E", 5 * 10**18, id="exa-is-no-exponent"),
        pytest.param("1e3", 1000, id="exponents"),
        pytest.param("100m", 1, id="less-than-one-is-rounded-up"),
        pytest.param("-1", -1, id="negative"),
    ],
)
def test_quantities_are_read(text: str, value: int) -> None:
    assert Quantity(text, value) == parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("1K", "unable to parse quantity's suffix", id="an-upper-case-k"),
        pytest.param("1e", "unable to parse quantity's suffix", id="an-empty-exponent"),
        pytest.param("1.2.3", "unable to parse numeric part of quantity", id="two-points"),
        pytest.param(
            "x",
            "quantities must match the regular expression"
            " '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            id="no-number",
        ),
    ],
)
def test_what_is_no_quantity_is_refused(text: str, expected: str) -> None:
    with pytest.raises(ValueTextError) as caught:
        parse_quantity(text)
    assert str(caught.value).startswith(expected)


def test_a_quantity_shows_the_text_that_it_was_written_with() -> None:
    assert str(parse_quantity("2Ki")) == "2Ki"


# --- addresses ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("10.0.0.1:80", ("10.0.0.1", "80"), id="ipv4"),
        pytest.param("[fd00::1]:80", ("fd00::1", "80"), id="ipv6-in-brackets"),
        pytest.param(":80", ("", "80"), id="no-host"),
        pytest.param("[]:", ("", ""), id="nothing-at-all"),
    ],
)
def test_addresses_are_split(text: str, expected: tuple[str, str]) -> None:
    assert expected == split_host_port(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("foo", "address foo: missing port in address", id="no-port"),
        pytest.param("[::1]", "address [::1]: missing port in address", id="only-brackets"),
        pytest.param("[::1", "address [::1: missing ']' in address", id="an-open-bracket"),
        pytest.param("::1:80", "address ::1:80: too many colons in address", id="no-brackets"),
        pytest.param(
            "[::1]:80:90", "address [::1]:80:90: too many colons in address", id="two-ports"
        ),
        pytest.param(
            "a]b:80", "address a]b:80: unexpected bracket in address", id="a-stray-bracket"
        ),
    ],
)
def test_what_cannot_be_split_is_refused(text: str, expected: str) -> None:
    with pytest.raises(ValueTextError) as caught:
        split_host_port(text)
    assert expected == str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("10.0.0.1", "10.0.0.1:99", id="a-bare-address-gets-the-port"),
        pytest.param("fd00::1", "[fd00::1]:99", id="a-bare-ipv6-address-gets-brackets-too"),
        pytest.param("10.0.0.1:80", "10.0.0.1:80", id="a-port-stays"),
        pytest.param("nonsense", "nonsense", id="nonsense-is-left-to-validation"),
    ],
)
def test_ports_are_added(text: str, expected: str) -> None:
    assert expected == with_port(text, 99)
