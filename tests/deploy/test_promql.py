import pytest

from deploy.promql import Read, Uses, uses


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("up == 0", Uses((Read("up", frozenset()),), frozenset(), None), id="plain"),
        pytest.param(
            'rate(a_total{code=~"5..",job="x, y"}[5m]) > 0.1',
            Uses((Read("a_total", frozenset({"code", "job"})),), frozenset({"rate"}), None),
            id="a-selector",
        ),
        pytest.param(
            "sum by (le, node) (rate(a_bucket[1m])) / on (node) group_left (zone) b",
            Uses(
                (Read("a_bucket", frozenset()), Read("b", frozenset())),
                frozenset({"sum", "rate"}),
                frozenset({"le", "node", "zone"}),
            ),
            id="groups",
        ),
        pytest.param(
            "a and b or vector(0)",
            Uses((Read("a", frozenset()), Read("b", frozenset())), frozenset({"vector"}), None),
            id="operators",
        ),
    ],
)
def test_an_expression_is_taken_apart(expression: str, expected: Uses) -> None:
    assert expected == uses(expression)


def test_what_is_no_expression_is_an_error() -> None:
    with pytest.raises(AssertionError, match="what is"):
        uses("a ? b")
