import re

import pytest

from kubeproxy.cluster.manifests.documents import BrokenManifest, Document, parse

TWO = """\
apiVersion: v1
kind: Service
metadata:
  name: web
---
# only a comment
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1}
"""

KUBECTL_LIST = """\
apiVersion: v1
items:
- apiVersion: v1
  kind: Service
  metadata:
    creationTimestamp: "2026-01-01T00:00:00Z"
    name: a
- apiVersion: v1
  kind: Pod
  metadata:
    name: b
kind: List
metadata:
  resourceVersion: ""
"""

NESTED_LISTS = """\
kind: List
apiVersion: v1
items:
- kind: ServiceList
  apiVersion: v1
  items:
  - metadata: {name: a}
- kind: List
  apiVersion: v1
  items:
  - {kind: Node, apiVersion: v1, metadata: {name: n}}
"""

JSON_LIST = """
{"kind": "ServiceList", "apiVersion": "v1", "metadata": {}, "items": [
  {"metadata": {"name": "a"}},
  {"kind": "List", "apiVersion": "v1", "items": [
     {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}}]}]}
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", [], id="an-empty-text-has-none"),
        pytest.param("---\n---\n# nothing\n", [], id="empty-documents-are-none"),
        pytest.param(
            TWO,
            [("Service", "v1", 1), ("EndpointSlice", "discovery.k8s.io/v1", 8)],
            id="two-documents-and-a-comment-between",
        ),
        pytest.param(
            KUBECTL_LIST, [("Service", "v1", 3), ("Pod", "v1", 8)], id="what-kubectl-prints"
        ),
        pytest.param(
            NESTED_LISTS,
            [("Service", "v1", 7), ("Node", "v1", 11)],
            id="nested-lists-whose-items-may-leave-their-kind-to-the-list",
        ),
        pytest.param(
            JSON_LIST,
            [("Service", "v1", 2), ("Node", "v1", 2)],
            id="a-list-in-json-has-one-line-for-all",
        ),
        pytest.param(
            '{"kind":"A","apiVersion":"v1"}\n{"kind":"B","apiVersion":"v1"}',
            [("A", "v1", 1), ("B", "v1", 2)],
            id="json-values-that-follow-each-other",
        ),
        pytest.param(
            "{kind: A, apiVersion: v1}", [("A", "v1", 1)], id="yaml-that-begins-like-json"
        ),
        pytest.param(
            "kind: AllowList\napiVersion: x/v1\n",
            [("AllowList", "x/v1", 1)],
            id="a-kind-that-only-sounds-like-a-list",
        ),
        pytest.param("kind: List\napiVersion: v1\nitems: []\n", [], id="an-empty-list"),
        pytest.param("kind: List\napiVersion: v1\nitems: [~]\n", [], id="a-list-of-nothing"),
    ],
)
def test_documents_in_a_text(text: str, expected: list[tuple[str, str, int]]) -> None:
    documents = parse(text, "file.yaml")
    assert expected == [(d.kind, d.api_version, d.line) for d in documents]


def test_a_document_holds_its_whole_body() -> None:
    assert parse("kind: A\napiVersion: v1\nspec: {ports: [80]}\n", "a.yaml") == [
        Document(
            "A", "v1", {"kind": "A", "apiVersion": "v1", "spec": {"ports": [80]}}, 1, "a.yaml"
        )
    ]


@pytest.mark.parametrize(
    ("scalar", "expected"),
    [
        pytest.param("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", id="a-time-is-a-text"),
        pytest.param("2026-01-01", "2026-01-01", id="a-date-is-a-text"),
        pytest.param("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8", id="an-ipv6-address-is-a-text"),
        pytest.param("10.96.0.1", "10.96.0.1", id="an-ipv4-address-is-a-text"),
        pytest.param("=", "=", id="an-equals-sign-is-a-text"),
        pytest.param("80", 80, id="a-number"),
        pytest.param("-1", -1, id="a-negative-number"),
        pytest.param("0x10", 16, id="a-hexadecimal-number"),
        pytest.param("1.5", 1.5, id="a-fraction"),
        pytest.param('"80"', "80", id="a-quoted-number-is-a-text"),
        pytest.param("true", True, id="true"),
        pytest.param("no", False, id="no-is-false-as-for-kubectl"),
        pytest.param("~", None, id="nothing"),
        pytest.param("", None, id="left-out"),
        pytest.param("None", "None", id="none-is-a-text"),
        pytest.param('"\\uD83D\\uDE00"', "\N{GRINNING FACE}", id="json-escapes-of-two-parts"),
    ],
)
def test_what_a_value_means(scalar: str, expected: object) -> None:
    text = f"kind: A\napiVersion: v1\nvalue: {scalar}\n"
    if scalar.startswith('"\\u'):
        text = f'{{"kind": "A", "apiVersion": "v1", "value": {scalar}}}'
    assert [expected] == [document.body["value"] for document in parse(text)]


def test_anchors_and_merges_are_resolved_and_may_be_overridden() -> None:
    text = """\
kind: A
apiVersion: v1
base: &base {a: 1, b: 2}
merged:
  <<: *base
  b: 3
again: *base
"""
    body = parse(text)[0].body
    assert (body["merged"], body["again"]) == ({"a": 1, "b": 3}, {"a": 1, "b": 2})


@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        pytest.param(
            "a: [1,\nb: 2\n",
            3,
            1,
            "did not find expected ',' or ']'",
            id="a-bracket-that-is-never-closed",
        ),
        pytest.param(
            "kind: A\napiVersion: v1\nmetadata:\n  name: a: b\n",
            4,
            10,
            "mapping values are not allowed in this context",
            id="a-colon-too-many",
        ),
        pytest.param(
            "kind: A\napiVersion: v1\nspec:\n  a: 1\n  b: 2\n  a: 3\n",
            6,
            3,
            "key 'a' is already set in line 4",
            id="a-key-that-is-given-twice",
        ),
        pytest.param(
            '{"kind": "A",\n "kind": "B"}',
            2,
            2,
            "key 'kind' is already set in line 1",
            id="a-key-that-is-given-twice-in-json",
        ),
        pytest.param(
            "kind: A\napiVersion: v1\n---\njust a text\n",
            4,
            1,
            "a document must be an object",
            id="a-text-instead-of-an-object",
        ),
        pytest.param("- 1\n", 1, 1, "a document must be an object", id="a-sequence"),
        pytest.param("replicas: 3\n", 1, 1, "kind is missing", id="no-kind"),
        pytest.param("kind: 3\napiVersion: v1\n", 1, 1, "kind is missing", id="a-kind-of-3"),
        pytest.param("\nkind: A\n", 2, 1, "the A has no apiVersion", id="no-version"),
        pytest.param(
            "kind: List\napiVersion: v1\nitems:\n- metadata: {}\n",
            4,
            3,
            "kind is missing",
            id="an-item-without-kind-in-a-list-of-anything",
        ),
        pytest.param(
            "kind: A\napiVersion: v1\nx: !!bool 1\n",
            3,
            4,
            "cannot decode '1' as a !!bool",
            id="a-tag-that-does-not-fit",
        ),
        pytest.param(
            "kind: A\nx: \x07\n", 2, 4, "the character #x0007 is not allowed", id="a-bell"
        ),
        pytest.param(
            "\nkind: List\napiVersion: v1\nitems: [1]\n",
            2,
            1,
            "a document must be an object",
            id="an-item-that-is-no-object",
        ),
        pytest.param("[" * 100_000, 1, 201, "it is nested too deeply", id="too-many-brackets"),
        pytest.param("- " * 100_000, 1, 401, "it is nested too deeply", id="too-many-dashes"),
        pytest.param('["]",' * 100_000, 1, 1001, "it is nested too deeply", id="quoted-brackets"),
        pytest.param(
            "kind: List\nitems: &a\n- kind: List\n  items: *a\n",
            4,
            10,
            "the alias *a is part of itself",
            id="a-list-in-itself",
        ),
        pytest.param(
            f"kind: Service\nspec: {{port: {'9' * 1_500_000}}}",
            2,
            14,
            "a number of 1500000 characters is too large",
            id="too-long-a-number",
        ),
    ],
)
def test_texts_that_are_refused(text: str, line: int, column: int, reason: str) -> None:
    with pytest.raises(BrokenManifest) as caught:
        parse(text, "dir/file.yaml")
    assert ("dir/file.yaml", line, column) == (
        caught.value.file,
        caught.value.line,
        caught.value.column,
    )
    assert caught.value.reason.startswith(reason)
    assert str(caught.value) == f"dir/file.yaml:{line}:{column}: {caught.value.reason}"


@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        pytest.param('{"kind": "A",\n  "b": }', 2, 8, "Expecting value", id="a-value-is-missing"),
        pytest.param("{kind: A}", 1, 2, "Expecting property name", id="yaml-in-a-json-file"),
        pytest.param("[1]", 1, 1, "a document must be", id="an-array"),
        pytest.param('{"a":' * 100_000, 1, 1, "it is nested too deeply", id="too-deep"),
        pytest.param(
            f'{{"a": {"9" * 1_500_000}}}',
            1,
            1,
            "a number of 1500000 characters is too large",
            id="too-long-a-number",
        ),
        pytest.param(
            '{"kind": "\\ud800"}',
            1,
            1,
            "surrogates not allowed",
            id="half-a-character",
        ),
    ],
)
def test_json_files_that_are_refused(text: str, line: int, column: int, reason: str) -> None:
    with pytest.raises(BrokenManifest, match=re.escape(reason)) as caught:
        parse(text, "file.json")
    assert (line, column) == (caught.value.line, caught.value.column)


def test_many_brackets_in_a_text_are_not_nested() -> None:
    text = f"kind: A\napiVersion: v1\nscript: '{'[31m' * 1000}'\n"
    assert len(parse(text)) == 1


def test_a_character_in_two_halves_is_one() -> None:
    (document,) = parse('{"kind": "\\ud83d\\ude00", "apiVersion": "v1"}', "x.json")
    assert document.kind == "\U0001f600"
