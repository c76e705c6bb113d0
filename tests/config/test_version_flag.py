import pytest

from kubeproxy.base.version import KUBERNETES_VERSION, VERSION
from kubeproxy.config.errors import ValueTextError
from kubeproxy.config.version_flag import VERSION_KIND, reported_version, version_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("true", "true", id="yes"),
        pytest.param("0", "false", id="no"),
        pytest.param("raw", "raw", id="raw"),
        pytest.param(KUBERNETES_VERSION, KUBERNETES_VERSION, id="our-own-version"),
        pytest.param(
            f"{KUBERNETES_VERSION}-eks.1+abc", f"{KUBERNETES_VERSION}-eks.1+abc", id="a-suffix"
        ),
    ],
)
def test_values_of_the_flag(text: str, expected: str) -> None:
    assert expected == VERSION_KIND.parse(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("x", 'strconv.ParseBool: parsing "x": invalid syntax', id="nonsense"),
        pytest.param("v1", 'could not parse "v1" as version', id="no-version"),
        pytest.param(
            "v1.2.3",
            'version "v1.2.3" must match major/minor/patch of default version'
            f' "{KUBERNETES_VERSION}"',
            id="another-version",
        ),
    ],
)
def test_other_values_are_refused(text: str, expected: str) -> None:
    with pytest.raises(ValueTextError) as caught:
        VERSION_KIND.parse(text)
    assert expected == str(caught.value)


def test_what_is_printed() -> None:
    assert f"Kubernetes {KUBERNETES_VERSION}" == version_text("true", "m1")
    assert version_text("false", "m1") is None
    assert version_text(f"{KUBERNETES_VERSION}-x", "m1") is None


def test_raw_is_one_line_with_everything() -> None:
    text = version_text("raw", "m1") or ""
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    expected = f'version.Info{{Major:"{major}", Minor:"{minor}", GitVersion:"{KUBERNETES_VERSION}"'
    assert text.startswith(expected)
    assert text.endswith(f'Program:"kubeproxy {VERSION}"}}')
    assert 'Platform:"linux/m1"' in text
    assert "\n" not in text


def test_the_reported_version_can_be_overridden() -> None:
    assert reported_version("false") == KUBERNETES_VERSION
    assert f"{KUBERNETES_VERSION}-x" == reported_version(f"{KUBERNETES_VERSION}-x")
