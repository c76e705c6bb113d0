import pytest

from kubeproxy.base.version import KUBERNETES_VERSION
from kubeproxy.config.errors import ValueTextError
from kubeproxy.config.kinds import VERSION


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
def test_a_version(text: str, expected: str) -> None:
    assert expected == VERSION.parse(text)


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
def test_what_is_no_version_is_refused(text: str, expected: str) -> None:
    with pytest.raises(ValueTextError) as caught:
        VERSION.parse(text)
    assert expected == str(caught.value)
