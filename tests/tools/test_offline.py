"""Commands without a daemon: what they read of manifests, and what they say of the kernel."""

from pathlib import Path

import pytest

from kubeproxy.app.cli import main
from kubeproxy.tools import offline
from kubeproxy.tools.offline import rules_text
from tools.manifests import SHOP, write


@pytest.fixture(autouse=True)
def _no_cluster_but_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(offline, "kernels_mode", lambda: "nftables")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


@pytest.fixture
def nowhere(tmp_path: Path) -> str:
    return f"--socket={tmp_path}/none"


@pytest.fixture
def shop(tmp_path: Path) -> str:
    return f"--manifests={write(tmp_path, SHOP)}"


def test_services_of_manifests(
    nowhere: str, shop: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["services", nowhere, shop]) == 0
    out, err = capsys.readouterr()
    assert "shop/cart" in out
    assert err.startswith(f"note: {rules_text('nftables')} This is what a daemon would serve")
    assert main(["services", "shop/cart", nowhere, shop]) == 0
    out, _ = capsys.readouterr()
    assert "nftables mode" in out
    assert "10.64.3.11:8080" in out


def test_a_name_that_there_is_not(
    nowhere: str, shop: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["services", "shop/crt", nowhere, shop]) == 1
    assert "namespace shop has: cart" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["services", "diff"])
def test_neither_a_daemon_nor_a_cluster(
    command: str, nowhere: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, nowhere]) == 3
    *_, rules, advice = capsys.readouterr().err.splitlines()
    assert rules == rules_text("nftables")
    assert advice == ("Else no cluster is named: give --manifests DIRECTORY or --kubeconfig FILE.")


def test_a_cluster_that_is_named_where_there_is_none(
    nowhere: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["services", nowhere, "--proxy-mode=ipvs"]) == 1
    assert "no cluster is named" in capsys.readouterr().err


def test_what_is_not_known_is_not_said() -> None:
    assert rules_text("") == ""
    assert "ipvs mode" in rules_text("ipvs")
