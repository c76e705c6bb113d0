"""The rules as text, without privileges."""

import re
from pathlib import Path

import pytest

from kubeproxy.base.errors import OperatorError
from kubeproxy.tools.render import main
from tools.manifests import SHOP, write


@pytest.fixture
def manifests(tmp_path: Path) -> str:
    write(tmp_path, SHOP)
    return f"--manifests={tmp_path}"


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "kube-proxy render" in capsys.readouterr().out


def test_nftables(manifests: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([manifests, "--node=kestrel", "--family=ipv4"]) == 0
    out = capsys.readouterr().out
    assert "table ip kube-proxy {" in out
    assert "table ip6" not in out


@pytest.mark.parametrize("flag", ["--mode=iptables", "--proxy-mode=iptables"])
def test_iptables(manifests: str, flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([manifests, "--node=kestrel", flag]) == 0
    out = capsys.readouterr().out
    assert out.count("*filter\n") == 2
    assert out.count("COMMIT\n") == 4
    assert "# ip6tables-restore --noflush --counters\n" in out
    assert "-A KUBE-NODEPORTS" in out
    # The default of this mode, not that of the mode which is the default.
    assert "-m addrtype --dst-type LOCAL -j KUBE-NODEPORTS\n" in out


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        pytest.param("198.51.100.0/24", ["198.51.100.10", "198.51.100.77"], id="one-range"),
        pytest.param(
            "198.51.100.0/24,198.51.100.10/32",
            ["198.51.100.10", "198.51.100.77"],
            id="two-that-overlap",
        ),
        pytest.param("primary,localhost", ["127.0.0.1", "198.51.100.10"], id="localhost"),
    ],
)
def test_node_ports_of_listed_addresses_have_one_jump_for_each(
    manifests: str, addresses: str, expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--mode=iptables", "--family=IPv4", f"--nodeport-addresses={addresses}"]
    assert main([manifests, "--node=kestrel", *flags]) == 0
    out = capsys.readouterr().out
    assert expected == re.findall(
        r"^-A KUBE-SERVICES .* -d (\S+) -j KUBE-NODEPORTS$", out, re.MULTILINE
    )


def test_the_mode_of_a_config_file_can_be_changed(
    manifests: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config"
    config.write_text(
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1\n"
        "kind: KubeProxyConfiguration\n"
        "mode: nftables\n"
        "conntrack: {tcpBeLiberal: true}\n"
    )
    assert main([manifests, f"--config={config}", "--node=kestrel", "--mode=iptables"]) == 0
    out = capsys.readouterr().out
    assert "*filter\n" in out
    assert "INVALID" not in out
    # What nftables mode makes of an empty `nodePortAddresses` does not count.
    assert "-m addrtype --dst-type LOCAL -j KUBE-NODEPORTS\n" in out


def test_ipvs(manifests: str, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--mode=ipvs", "--ipvs-scheduler=sh", "--iptables-masquerade-bit=15"]
    assert main([manifests, "--node=kestrel", *flags]) == 0
    out = capsys.readouterr().out
    assert out.count("# ipset save\n") == 2
    assert out.count("create KUBE-") == 34
    assert "-s sh\n" in out
    assert "-j MARK --set-xmark 0x8000/0x8000\n" in out
    assert "-A KUBE-IPVS-FILTER" in out


def test_a_family_that_there_is_not(manifests: str) -> None:
    with pytest.raises(OperatorError, match="--family ipx: must be IPv4 or IPv6"):
        main([manifests, "--node=kestrel", "--family=ipx"])
