import json

import pytest
import yaml

from kubeproxy.serve.http.answer import Answer
from kubeproxy.serve.http.request import Request
from kubeproxy.serve.zpages import negotiate

FIELDS = {"uptimeSeconds": 3, "paths": ["/metrics"]}
OBJECT = "g=config.k8s.io;as=Statusz"


def statusz(accept: str) -> Answer:
    request = Request("GET", "/statusz", headers={"accept": accept})
    return negotiate(request, "Statusz", ["words"], FIELDS)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        pytest.param("", "text/plain; charset=utf-8", id="no-header"),
        pytest.param("*/*", "text/plain; charset=utf-8", id="anything"),
        pytest.param("text/plain", "text/plain; charset=utf-8", id="text"),
        pytest.param("text/html, */*;q=0.8", "text/plain; charset=utf-8", id="browser"),
        pytest.param(
            f"application/json;v=v1beta1;{OBJECT};q=0.1, text/*",
            "text/plain; charset=utf-8",
            id="text-rather",
        ),
        pytest.param(
            f"text/plain;q=x, application/json;v=v1beta1;{OBJECT}",
            "application/json;g=config.k8s.io;v=v1beta1;as=Statusz",
            id="an-object-and-a-quality-that-is-none",
        ),
        pytest.param(
            f"application/yaml; v=v1beta1; {OBJECT}",
            "application/yaml;g=config.k8s.io;v=v1beta1;as=Statusz",
            id="yaml",
        ),
        pytest.param("application/json", "", id="an-object-without-version"),
        pytest.param(f"application/json;v=v2;{OBJECT}", "", id="unknown-version"),
        pytest.param(f"application/cbor;v=v1beta1;{OBJECT}", "", id="unknown-format"),
        pytest.param(
            "application/json;v=v1beta1;g=config.k8s.io;as=Flagz", "", id="another-object"
        ),
        pytest.param("text/html", "", id="html"),
    ],
)
def test_what_is_accepted(accept: str, expected: str) -> None:
    answer = statusz(accept)
    assert answer.status == (200 if expected else 406)
    assert dict(answer.headers)["Content-Type"] == (expected or "application/json")
    assert isinstance(answer.body, bytes)
    assert answer.body.endswith(b"\nwords\n") == expected.startswith("text")


@pytest.mark.parametrize("media", ["application/json", "application/yaml"])
@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
def test_the_object(media: str, version: str) -> None:
    answer = statusz(f"{media};v={version};{OBJECT}")
    assert isinstance(answer.body, bytes)
    assert yaml.safe_load(answer.body) == {
        "kind": "Statusz",
        "apiVersion": f"config.k8s.io/{version}",
        "metadata": {"name": "kube-proxy"},
        **FIELDS,
    }
    old = "This version of the statusz endpoint is deprecated. Please use a newer version."
    expected = {"v1alpha1": f'299 - "{old}"'}.get(version)
    assert expected == dict(answer.headers).get("Warning")


def test_the_answer_when_nothing_fits() -> None:
    answer = statusz("text/html")
    assert isinstance(answer.body, bytes)
    assert json.loads(answer.body) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "only the following media types are accepted:"
        " application/json, application/yaml, text/plain",
        "reason": "NotAcceptable",
        "code": 406,
    }
