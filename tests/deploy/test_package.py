"""The package: what is in the wheel besides the modules."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHELL = ROOT / "src/kubeproxy/tools/shell"
SHARED = {
    "bash-completion/completions/kube-proxy.bash": "kube-proxy.bash",
    "zsh/site-functions/_kube-proxy": "_kube-proxy",
    "fish/vendor_completions.d/kube-proxy.fish": "kube-proxy.fish",
    "man/man8/kube-proxy.8": "kube-proxy.8",
}


@pytest.mark.slow
def test_the_wheel_has_its_commit_the_completions_and_the_manual_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBEPROXY_COMMIT", "0123456789ab")
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    subprocess.run([*pip, "--wheel-dir", str(tmp_path), str(copy)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as package:
        assert package.read("kubeproxy/base/commit.txt") == b"0123456789ab\n"
        shared = {
            name.partition(".data/data/share/")[2]: package.read(name)
            for name in package.namelist()
            if ".data/data/share/" in name
        }
    assert {to: (SHELL / name).read_bytes() for to, name in SHARED.items()} == shared
