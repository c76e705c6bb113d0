from unittest.mock import ANY

import pytest

from kubeproxy.config.decode import decode
from kubeproxy.config.errors import ConfigError, Level, Notice

HEAD = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"
KUBELET = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
OTHERS = "The config file has documents that are not for kube-proxy; they are skipped"
SEVERAL = "The config file has several documents for kube-proxy; only the first is used"
BROKEN = "The config file cannot be read to its end, after the document for kube-proxy"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(f"{HEAD}mode: ipvs\n", [], id="one-document"),
        pytest.param(f"---\n{HEAD}mode: ipvs\n...\n", [], id="marks-around-one-document"),
        pytest.param(f"---\n---\n{HEAD}mode: ipvs\n---\n", [], id="empty-ones"),
        pytest.param(
            f"{KUBELET}---\n{HEAD}mode: ipvs\n---\nkind: InitConfiguration\n",
            [
                Notice(
                    Level.INFO,
                    OTHERS,
                    {
                        "documents": [
                            "KubeletConfiguration (line 1)",
                            "InitConfiguration (line 8)",
                        ]
                    },
                )
            ],
            id="those-of-others-around-ours",
        ),
        pytest.param(
            f"{HEAD}mode: ipvs\n---\nmode: x\n---\n[1]\n",
            [
                Notice(
                    Level.WARNING, OTHERS, {"documents": ["no kind (line 5)", "no kind (line 7)"]}
                )
            ],
            id="some-without-a-kind",
        ),
        pytest.param(
            f"kind: KubeProxyConfiguration\napiVersion: v2\n---\n{HEAD}mode: ipvs\n",
            [Notice(Level.WARNING, OTHERS, {"documents": ["KubeProxyConfiguration (line 1)"]})],
            id="ours-in-another-version",
        ),
        pytest.param(
            f"{HEAD}mode: ipvs\n---\n{HEAD}mode: iptables\n",
            [Notice(Level.WARNING, SEVERAL, {"skipped": ["KubeProxyConfiguration (line 5)"]})],
            id="two-of-ours",
        ),
        pytest.param(
            f"{HEAD}mode: ipvs\n---\nmode: [\n",
            [Notice(Level.WARNING, BROKEN, {"err": ANY})],
            id="a-second-one-with-mistakes",
        ),
        pytest.param(
            f"{HEAD}mode: ipvs\n...\n%YAML 9.9\n---\n",
            [Notice(Level.WARNING, BROKEN, {"err": ANY})],
            id="a-second-one-that-cannot-begin",
        ),
    ],
)
def test_of_several_documents_ours_is_used(text: str, expected: list[Notice]) -> None:
    config, notices = decode(text)
    assert config.mode == "ipvs"
    assert expected == notices


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", "Object 'Kind' is missing in ''", id="an-empty-file"),
        pytest.param("[1]", "Object 'Kind' is missing in '[1]'", id="a-list"),
        pytest.param("mode: x", "Object 'Kind' is missing in 'mode: x'", id="no-kind"),
        pytest.param("kind: [x]", "Object 'Kind' is missing in 'kind: [x]'", id="a-list-as-kind"),
        pytest.param(
            "{[1]: a, kind: x}",
            "Object 'apiVersion' is missing in '{[1]: a, kind: x}'",
            id="no-version",
        ),
        pytest.param(
            "kind: KubeProxyConfiguration\napiVersion: kubeproxy.config.k8s.io/v1beta1",
            'no kind "KubeProxyConfiguration" is registered for version'
            ' "kubeproxy.config.k8s.io/v1beta1"; expected kind "KubeProxyConfiguration" of'
            ' version "kubeproxy.config.k8s.io/v1alpha1"',
            id="another-version",
        ),
        pytest.param(
            "kind: Pod\napiVersion: v1",
            'no kind "Pod" is registered for version "v1"; expected kind'
            ' "KubeProxyConfiguration" of version "kubeproxy.config.k8s.io/v1alpha1"',
            id="another-kind",
        ),
        pytest.param(
            f"{KUBELET}---\nkind: KubeProxyConfiguration\n",
            'none of the documents is of kind "KubeProxyConfiguration" of version'
            ' "kubeproxy.config.k8s.io/v1alpha1"; found KubeletConfiguration (line 1),'
            " KubeProxyConfiguration (line 4)",
            id="several-documents-of-others",
        ),
        pytest.param(
            f"{KUBELET}---\na: [1",
            "yaml: line 5: did not find expected ',' or ']'",
            id="broken-yaml-after-another-document",
        ),
        pytest.param("a: [1", "yaml: line 2: did not find expected ',' or ']'", id="broken-yaml"),
        pytest.param(
            "a: \x01",
            "yaml: line 1: the character #x0001 is not allowed",
            id="control-characters",
        ),
    ],
)
def test_what_is_no_configuration_is_refused(text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        decode(text)
    assert f"failed to decode: {expected}" == str(caught.value)
