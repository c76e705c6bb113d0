import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeproxy.serve.metrics.families import header, label_text, number, with_bound


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(0, "0", id="zero"),
        pytest.param(1.0, "1", id="whole-numbers-have-no-point"),
        pytest.param(-3, "-3", id="negative"),
        pytest.param(999999.0, "999999", id="six-digits-stay-digits"),
        pytest.param(1e6, "1e+06", id="a-million-has-an-exponent"),
        pytest.param(1048576, "1.048576e+06", id="so-has-a-bound-of-bytes"),
        pytest.param(1794821484.5213916, "1.7948214845213916e+09", id="a-time"),
        pytest.param(2.0**64, "1.8446744073709552e+19", id="no-limit"),
        pytest.param(100000.5, "100000.5", id="fractions-below-a-million"),
        pytest.param(0.001, "0.001", id="a-thousandth"),
        pytest.param(0.0001, "0.0001", id="the-smallest-without-exponent"),
        pytest.param(0.00001, "1e-05", id="smaller-has-an-exponent"),
        pytest.param(-2.384e-06, "-2.384e-06", id="negative-and-small"),
        pytest.param(math.inf, "+Inf", id="infinity"),
        pytest.param(-math.inf, "-Inf", id="negative-infinity"),
        pytest.param(math.nan, "NaN", id="not-a-number"),
    ],
)
def test_numbers_are_spelled_as_go_spells_them(value: float, expected: str) -> None:
    assert expected == number(value)


@given(st.floats(allow_nan=False))
def test_a_number_means_what_it_was(value: float) -> None:
    assert value == float(number(value))


@pytest.mark.parametrize(
    ("names", "values", "expected"),
    [
        pytest.param((), (), "", id="none"),
        pytest.param(("b", "a"), ("1", "2"), '{a="2",b="1"}', id="sorted-by-name"),
        pytest.param(("a",), ('x"y\\z\n',), '{a="x\\"y\\\\z\\n"}', id="escaped"),
    ],
)
def test_labels(names: tuple[str, ...], values: tuple[str, ...], expected: str) -> None:
    assert expected == label_text(names, values)


def test_a_value_for_each_label() -> None:
    with pytest.raises(ValueError, match="shorter"):
        label_text(("a", "b"), ("1",))


def test_the_bound_of_a_bucket_comes_last() -> None:
    assert with_bound("", 0.5) == '{le="0.5"}'
    assert with_bound('{z="1"}', math.inf) == '{z="1",le="+Inf"}'


def test_a_help_is_one_line() -> None:
    assert header("a", "gauge", "x\\y\nz") == "# HELP a x\\\\y\\nz\n# TYPE a gauge\n"
