"""YAML and JSON as kubectl reads them; hostile texts are rejected at once, with the place."""

import math
import re

import pytest

from kubeproxy.base.kubeyaml import TextError, documents, values

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
        pytest.param("a: " + "[" * 100_000, "nested too deeply", (1, 203), id="brackets"),
        pytest.param('["]",' * 100_000, "nested too deeply", (1, 1001), id="hidden-brackets"),
        pytest.param("- " * 100_000 + "a", "nested too deeply", (1, 401), id="dashes"),
        pytest.param("a: &a\n  b: *a\n", "*a is part of itself", (2, 6), id="self-alias"),
        pytest.param("&a [&b [*a]]", "*a is part of itself", (1, 9), id="self-alias-inside"),
        pytest.param("a: *b", "unknown anchor 'b' referenced", (1, 4), id="unknown-anchor"),
        pytest.param("a: &b 1\n---\na: *b", "unknown anchor 'b'", (3, 4), id="an-old-anchor"),
        pytest.param(laughs(9), "aliases make it too large", (5, 38), id="billion-laughs"),
        pytest.param(merges(20_000, 400), "aliases make it too large", None, id="merges"),
        pytest.param("a: " + "9" * 1_500_000, "1500000 characters", (1, 4), id="long-number"),
        pytest.param(f'a: !!int "{"9" * 500}"', "500 characters", (1, 4), id="tagged-number"),
        pytest.param("a: [1\nb: }", "did not find expected ',' or ']'", (2, 2), id="no-yaml"),
        pytest.param("a:\n- \x07", "the character #x0007 is not allowed", (2, 3), id="a-bell"),
        pytest.param("a: {<<: 1}", "only mappings can be merged", (1, 5), id="no-merge"),
        pytest.param("a: {<<: [1]}", "only mappings can be merged", (1, 5), id="no-merges"),
        pytest.param("a: 1\n? [1]\n: 2", "a key must be a string", (2, 3), id="a-list-as-key"),
        pytest.param("~: 1", "a key must be a string", (1, 1), id="nothing-as-key"),
        pytest.param("a: 1\n---\n- 2", "must be an object", (3, 1), id="a-list"),
        pytest.param("text", "must be an object", (1, 1), id="a-text"),
    ],
)
def test_a_text_that_is_rejected_has_a_place_and_a_reason(
    text: str, reason: str, place: tuple[int, int] | None
) -> None:
    with pytest.raises(TextError, match=re.escape(reason)) as caught:
        values(text)
    assert place in (None, (caught.value.line, caught.value.column))
    assert str(caught.value) == f"yaml: line {caught.value.line}: {caught.value.reason}"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a: &a 1\nb: *a\nc: &c [*a]\nd: [*a, *c]", id="anchors"),
        pytest.param(laughs(4), id="some-laughs"),
        pytest.param(merges(100, 500), id="five-hundred-users-of-a-base"),
        pytest.param("a: " + "[" * 199 + "]" * 199, id="two-hundred-levels"),
        pytest.param(f'a: "{"9" * 1000}"\nb: {"f" * 1000}', id="long-texts"),
        pytest.param("a: " + "1:" * 9000 + "1", id="a-long-text-of-digits"),
        pytest.param("a: " + "9" * 400, id="large-number"),
    ],
)
def test_what_people_write_is_within_bounds(text: str) -> None:
    assert values(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(pytest.param(text, None, id=text or "empty") for text in ("", "~", "null", "NULL")),
        *(pytest.param(text, True, id=text) for text in ("true", "Yes", "ON", "y", "Y")),
        *(pytest.param(text, False, id=text) for text in ("False", "no", "Off", "n", "N")),
        *(
            pytest.param(text, text, id=text)
            for text in (
                *("2026-01-01", "2026-1-2 10:00:00", "1:30", "1:2:3:4:5:6:7:8", "10.96.0.1"),
                *("tRUE", "None", "=", "<<", "0x_", "0b2", "1e400", ".", "+", "._5", "1\u0662"),
            )
        ),
        pytest.param("80", 80, id="integer"),
        pytest.param("-1", -1, id="negative"),
        pytest.param("+1_000", 1000, id="underscores"),
        pytest.param("0x1F", 31, id="hexadecimal"),
        pytest.param("-0b11", -3, id="binary"),
        pytest.param("010", 8, id="octal"),
        pytest.param("0o10", 8, id="octal-with-an-o"),
        pytest.param("08", 8, id="no-octal"),
        pytest.param("1e3", 1000, id="whole-with-an-exponent"),
        pytest.param("1.5e+1", 15, id="whole-fraction"),
        pytest.param("1e21", 1e21, id="too-large-to-be-whole"),
        pytest.param("1.5", 1.5, id="fraction"),
        pytest.param("+.5", 0.5, id="fraction-without-a-zero"),
        pytest.param("-.INF", -math.inf, id="infinity"),
        pytest.param("'80'", "80", id="quoted"),
        pytest.param("!!str 80", "80", id="tagged-string"),
        pytest.param('!!int "80"', 80, id="tagged-integer"),
        pytest.param("!!float 1", 1, id="tagged-float"),
        pytest.param("!!null ~", None, id="tagged-null"),
        pytest.param("!!bool y", True, id="tagged-bool"),
        pytest.param("!!timestamp 2026-01-01", "2026-01-01", id="tagged-date"),
        pytest.param("!!binary aGk=", "hi", id="tagged-binary"),
        pytest.param("!secret 80", "80", id="a-tag-of-others-is-ignored"),
        pytest.param("! 80", "80", id="no-tag"),
    ],
)
def test_scalars_mean_what_they_mean_to_kubectl(text: str, expected: object) -> None:
    assert values(f"a: {text}") == [{"a": expected}]


@pytest.mark.parametrize(
    "text", ["!!bool maybe", "!!int x", "!!int 1.5", "!!int ''", "!!null 1", "!!float x"]
)
def test_values_that_are_not_what_their_tag_says(text: str) -> None:
    with pytest.raises(TextError, match=r"^yaml: line 2: cannot decode") as caught:
        values(f"a:\n- {text}")
    assert (caught.value.line, caught.value.column) == (2, 3)


@pytest.mark.parametrize("text", ["\u00e9", "a", "gA=="])
def test_binary_that_is_no_text(text: str) -> None:
    with pytest.raises(TextError, match=r"^yaml: line 1: "):
        values(f"a: !!binary {text}")


def test_keys_are_strings_as_in_json() -> None:
    assert values("1: a\n1.10: b\nyes: c\noff: d\n'2': e\n2026-01-01: f") == [
        {"1": "a", "1.1": "b", "true": "c", "false": "d", "2": "e", "2026-01-01": "f"}
    ]


def test_what_is_merged_can_be_overridden() -> None:
    text = """\
x: &x {a: 1, b: 1}
y1: &y {a: 2, c: 2}
one: {b: 3, <<: *x}
two: {<<: [*x, *y], "<<": 4}
"""
    (found,) = values(text)
    assert found["one"] == {"a": 1, "b": 3}
    assert found["two"] == {"a": 1, "b": 1, "c": 2, "<<": 4}


@pytest.mark.parametrize("text", ["a: 1\na: 2", '{"a": 1, "a": 2}'])
def test_a_key_may_be_set_once_where_that_is_demanded(text: str) -> None:
    assert values(text) == [{"a": 2}]
    with pytest.raises(TextError, match="key 'a' is already set in line 1"):
        values(text, unique=True)
    with pytest.raises(TextError, match=r"key 'a' is set twice|Expecting value"):
        values(text, unique=True, json_only=True)


def test_empty_documents_are_left_out() -> None:
    assert values("") == []
    assert values("---\n# nothing\n---\na: 1\n...\n---\n") == [{"a": 1}]


def test_objects_and_nodes_know_where_they_begin() -> None:
    (found,) = values("\na:\n- b: 1")
    inner = found["a"][0]
    assert [(found.line, found.column), (inner.line, inner.column)] == [(2, 1), (3, 3)]
    assert [node.line for node in documents("a: 1\n---\n- b\n---\ntext\n")] == [1, 3, 5]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param('{"a": "\\ud83d\\ude00"}', [{"a": "\U0001f600"}], id="surrogate-pair"),
        pytest.param('{\n\t"a": 1e3}\n {"b": null}', [{"a": 1000}, {"b": None}], id="two"),
        pytest.param("{a: y}", [{"a": True}], id="yaml-that-begins-like-json"),
    ],
)
def test_json(text: str, expected: list[object]) -> None:
    assert values(text) == expected == values(text, unique=True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("[1]", "a document must be an object", id="a-list"),
        pytest.param("{a: 1}", "Expecting property name", id="yaml"),
        pytest.param('{"a": "\\ud800"}', "surrogates not allowed", id="half"),
        pytest.param('{"a":' * 100_000, "it is nested too deeply", id="deep"),
        pytest.param(f'{{"a": {"9" * 500}}}', "a number of 500 characters", id="long-number"),
    ],
)
def test_what_is_not_json(text: str, reason: str) -> None:
    with pytest.raises(TextError, match=re.escape(reason)) as caught:
        values(text, json_only=True)
    assert caught.value.line == 1
