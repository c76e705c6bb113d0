from collections.abc import Callable

import pytest

from kubeproxy.config.errors import ValueTextError
from kubeproxy.config.strconv import parse_bool, parse_float32, parse_int32, parse_level


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
