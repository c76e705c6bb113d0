"""YAML within bounds: hostile texts are refused in the blink of an eye, with the place."""

import pytest
import yaml

from kubeproxy.base.kubeyaml import check_bounds, load

TEN = ",".join(["*a"] * 10)


def laughs(levels: int) -> str:
    """A list of lists of lists: ten times as large with every level."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{TEN.replace('a', f'a{n - 1}')}]" for n in range(1, levels)]
    return "\n".join(lines)


def merges(keys: int, times: int) -> str:
    """One mapping, merged into many: a short text, and gigabytes of pairs."""
    fields = ", ".join(f"k{number}: 1" for number in range(keys))
    users = "\n".join(f"  m{number}: {{<<: *base}}" for number in range(times))
    return f"base: &base {{{fields}}}\nusers:\n{users}\n"


@pytest.mark.parametrize(
    ("text", "reason", "place"),
    [
        pytest.param("a: " + "[" * 100_000, "nested too deeply", (0, 202), id="brackets"),
        pytest.param('["]",' * 100_000, "nested too deeply", (0, 1000), id="hidden-brackets"),
        pytest.param("- " * 100_000 + "a", "nested too deeply", (0, 400), id="dashes"),
        pytest.param("a: &a\n  b: *a\n", "*a is part of itself", (1, 5), id="self-alias"),
        pytest.param("&a [&b [*a]]", "*a is part of itself", (0, 8), id="self-alias-inside"),
        pytest.param(laughs(9), "aliases make it too large", (4, 37), id="billion-laughs"),
        pytest.param(merges(20_000, 400), "aliases make it too large", None, id="merges"),
        pytest.param("a: " + "9" * 1_500_000, "1500000 characters", (0, 3), id="long-number"),
        pytest.param("a: " + "1:" * 9000 + "1", "18001 characters", (0, 3), id="base-of-sixty"),
        pytest.param(f'a: !!int "{"9" * 500}"', "500 characters", (0, 3), id="tagged-number"),
    ],
)
def test_a_text_that_asks_for_too_much_is_refused_with_its_place(
    text: str, reason: str, place: tuple[int, int] | None
) -> None:
    with pytest.raises(yaml.MarkedYAMLError) as caught:
        load(text)
    assert reason in str(caught.value)
    mark = caught.value.problem_mark
    assert mark is not None
    assert place in (None, (mark.line, mark.column))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a: &a 1\nb: *a\nc: &c [*a]\nd: [*a, *c]", id="anchors"),
        pytest.param(laughs(4), id="some-laughs"),
        pytest.param(merges(100, 500), id="five-hundred-users-of-a-base"),
        pytest.param("[" * 200 + "]" * 200, id="two-hundred-levels"),
        pytest.param(f'a: "{"9" * 1000}"\nb: {"f" * 1000}', id="long-texts"),
        pytest.param("a: " + "9" * 400, id="large-number"),
    ],
)
def test_what_people_write_is_within_bounds(text: str) -> None:
    assert load(text) is not None


@pytest.mark.parametrize(
    "value", ["!!bool maybe", "!!int x", "!!timestamp x", "!!int ''", "0x_", "!!binary \u00e9"]
)
def test_values_that_are_not_what_they_say_are_errors_of_yaml(value: str) -> None:
    with pytest.raises(yaml.MarkedYAMLError):
        load(f"a: {value}")


def test_scalars_mean_what_they_mean_to_kubectl() -> None:
    text = "a: 2026-01-01\nb: 1:2:3\nc: 0o17\nd: 1.5\ne: yes\nf: ~\n"
    expected = {"a": "2026-01-01", "b": "1:2:3", "d": 1.5, "e": True, "f": None}
    found = load(text)
    assert isinstance(found, dict)
    assert expected == {key: found[key] for key in expected}


def test_an_empty_text_is_nothing() -> None:
    assert load("") is None


def test_a_text_that_cannot_be_read_is_left_to_the_reader() -> None:
    check_bounds("a: [1\nb: }")
    with pytest.raises(yaml.MarkedYAMLError, match="flow sequence"):
        load("a: [1\nb: }")
