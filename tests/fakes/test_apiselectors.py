import pytest

from fakes.apierrors import ApiError
from fakes.apiselectors import meets, parse_fields, parse_labels

NOT_IN = "not" + "in"  # spelled so for the spelling checker
LABELS = {"app": "web", "example.com/tier": "front", "empty": ""}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param("", True, id="no-requirement-selects-everything"),
        pytest.param("app", True, id="a-key-that-is-there"),
        pytest.param("other", False, id="a-key-that-is-not-there"),
        pytest.param("!other", True, id="a-key-that-must-be-missing-and-is"),
        pytest.param("!app", False, id="a-key-that-must-be-missing-and-is-not"),
        pytest.param("!example.com/tier", False, id="keys-may-have-a-prefix"),
        pytest.param("app=web", True, id="one-equals-sign"),
        pytest.param("app==web", True, id="two-equals-signs"),
        pytest.param("app = db", False, id="another-value"),
        pytest.param("empty=", True, id="the-empty-value"),
        pytest.param("app!=db", True, id="not-that-value"),
        pytest.param("app!=web", False, id="exactly-the-unwanted-value"),
        pytest.param("other!=web", True, id="a-missing-key-differs-from-any-value"),
        pytest.param("app in (db, web)", True, id="one-of-some-values"),
        pytest.param("app in (db)", False, id="none-of-some-values"),
        pytest.param(f"app {NOT_IN} (db,web)", False, id="one-of-the-unwanted-values"),
        pytest.param(f"other {NOT_IN} (db)", True, id="a-missing-key-is-in-no-set"),
        pytest.param("app in (web,db),!other,empty", True, id="all-of-several"),
        pytest.param("app in (web,db),other", False, id="one-of-several-fails"),
    ],
)
def test_label_selectors(selector: str, *, expected: bool) -> None:
    assert expected == meets(parse_labels(selector), LABELS)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param("", True, id="no-requirement-selects-everything"),
        pytest.param("metadata.name=web", True, id="the-name"),
        pytest.param("metadata.name==db", False, id="another-name"),
        pytest.param("spec.clusterIP!=None", True, id="not-headless"),
        pytest.param("spec.clusterIP!=10.96.0.1", False, id="not-that-address-but-it-is"),
        pytest.param("metadata.name=web,spec.clusterIP!=10.96.0.1", False, id="one-of-two-fails"),
    ],
)
def test_field_selectors(selector: str, *, expected: bool) -> None:
    fields = {"metadata.name": "web", "spec.clusterIP": "10.96.0.1"}
    assert expected == meets(parse_fields(selector, list(fields)), fields)


@pytest.mark.parametrize(
    "selector",
    [
        pytest.param("app in web", id="a-set-without-parentheses"),
        pytest.param("app in (web", id="a-parenthesis-that-is-never-closed"),
        pytest.param("=web", id="no-key"),
        pytest.param("app,,b", id="an-empty-term"),
    ],
)
def test_broken_label_selectors_are_refused(selector: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_labels(selector)
    assert caught.value.code == 400


@pytest.mark.parametrize(
    "selector",
    [
        pytest.param("spec.ports=80", id="a-field-that-cannot-be-selected"),
        pytest.param("metadata.name", id="no-value"),
    ],
)
def test_broken_field_selectors_are_refused(selector: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_fields(selector, ["metadata.name"])
    assert caught.value.code == 400
