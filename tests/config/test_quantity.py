import pytest

from kubeproxy.config.errors import ValueTextError
from kubeproxy.config.quantity import Quantity, parse_quantity


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
