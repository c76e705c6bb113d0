import json

import pytest

from kubeproxy.app.cli import main
from kubeproxy.base.commit import commit
from kubeproxy.base.version import KUBERNETES_VERSION, VERSION, described


def test_the_version_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr() == (f"{described(commit())}\n", "")


def test_the_version_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "-o", "json"]) == 0
    expected = {
        "version": VERSION,
        "commit": commit(),
        "kubernetesVersion": KUBERNETES_VERSION,
    }
    assert expected == json.loads(capsys.readouterr().out)
