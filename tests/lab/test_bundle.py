"""`kube-proxy bundle` beside a real daemon: everything is in it, and no name that was hidden."""

import io
import json
import re
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from lab.deploy import Address, Port, deploy, everywhere
from lab.modes import only
from lab.plan import HOSTS, cluster_ip
from lab.stage import Lab
from terminals import in_terminal
from world import NODE_NAME

nftables = only("nftables", reason="the commands that it runs have tests in every mode")
KUBE_PROXY = (sys.executable, "-m", "kubeproxy")
SERVICES = (
    *deploy("novel", everywhere(21), "L1 R1", (Port(node_port=31080),)),
    *deploy("poem", Address(22), ""),
)


def bundle(lab: Lab, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    with lab.network.node.entered():
        return subprocess.run(
            [*KUBE_PROXY, "bundle", f"--socket={lab.socket}", *arguments],
            capture_output=True,
            check=False,
            timeout=120,
        )


def unpacked(data: bytes) -> dict[str, str]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        files = {}
        for entry in tar:
            content = tar.extractfile(entry)
            assert content is not None
            files[entry.name.partition("/")[2]] = content.read().decode()
        return files


@nftables
def test_everything_is_in_it(lab: Lab, tmp_path: Path) -> None:
    lab.run()
    lab.put(*SERVICES)
    path = tmp_path / "b.tar.gz"
    done = bundle(lab, f"--file={path}")
    assert (done.returncode, done.stdout) == (0, b"")
    assert path.stat().st_mode & 0o777 == 0o600
    files = unpacked(path.read_bytes())
    assert json.loads(files["status.json"])["node"] == NODE_NAME
    assert f"on node {NODE_NAME}" in files["status.txt"]
    assert "novel" in files["services.json"]
    assert files["table-IPv4.jsonl"].count("\n") == 4  # a head, two services and the lab's own
    assert cluster_ip(21) in files["desired-IPv4.txt"]
    assert cluster_ip(21) in files["nft.txt"]
    assert files["diff.txt"] == ""
    assert "nftables" in files["check.txt"]
    assert "kubeproxy_sync_proxy_rules_duration_seconds" in files["metrics.txt"]
    assert json.loads(files["config.json"])["kubeproxy.config.k8s.io"]["mode"] == "nftables"
    assert '"Version info"' in files["log.txt"]
    assert "nf_conntrack_max" in files["conntrack.txt"]
    assert "nft: nftables v" in files["versions.txt"]
    for line in done.stderr.decode().splitlines()[:-1]:
        name, _, rest = line.strip().partition(" ")
        assert name in files or files[f"{name}.missing"].strip() == rest.strip()
        assert f"{name}: " in files["contents.txt"]


@only("iptables", reason="these rules are listed by the iptables programs")
def test_rules_of_iptables_are_in_it(lab: Lab) -> None:
    lab.run()
    lab.put(*SERVICES)
    files = unpacked(bundle(lab, "--file=-").stdout)
    saved = files["iptables-save-nft.txt"] + files["iptables-save-legacy.txt"]
    for chain in ("KUBE-SERVICES", "KUBE-POSTROUTING"):
        assert f":{chain} - [" in saved
        assert f":{chain} - [" in files["desired-IPv4.txt"]
    assert f"-d {cluster_ip(21)}/32" in saved
    assert files["diff.txt"] == ""


@nftables
def test_names_and_addresses_are_replaced_in_all_of_it(lab: Lab) -> None:
    lab.run()
    lab.put(*SERVICES)
    with lab.network.node.entered():
        lab.dial("P", cluster_ip(21), 80)
    done = bundle(lab, "--file=-", "--hide=names,addresses")
    assert done.returncode == 0
    files = unpacked(done.stdout)
    hidden = ("novel", "poem", "mall", NODE_NAME, cluster_ip(21), HOSTS["L1"].ipv4)
    found = [
        (name, word)
        for name, text in files.items()
        for word in hidden
        if re.search(rf"(?<![\w.]){re.escape(word)}(?![\w])", text)
    ]
    assert found == []
    listed = json.loads(files["services.json"])["services"]
    named = {(each["namespace"], each["service"]) for each in listed}
    assert len(named) == len(listed)
    # The same name is the same everywhere: the table and the kernel's rules tell of one Service.
    address = listed[0]["addresses"][0]
    assert address in files["table-IPv4.jsonl"]
    assert address in files["nft.txt"]


@nftables
def test_without_a_daemon_there_is_the_kernel(lab: Lab, tmp_path: Path) -> None:
    lab.run()
    lab.put(*SERVICES)
    with lab.network.node.entered():
        done = subprocess.run(
            [*KUBE_PROXY, "bundle", "--file=-", f"--socket={tmp_path / 'none'}"],
            capture_output=True,
            check=False,
            timeout=120,
        )
    assert done.returncode == 0
    files = unpacked(done.stdout)
    assert "there is no such socket" in files["status.json.missing"]
    assert "COULD NOT BE HAD: no kube-proxy answers here" in files["contents.txt"]
    assert cluster_ip(21) in files["nft.txt"]


@nftables
def test_interrupted_it_leaves_nothing(lab: Lab, tmp_path: Path) -> None:
    lab.run()
    path = tmp_path / "b.tar.gz"
    command = [*KUBE_PROXY, "bundle", f"--socket={lab.socket}", f"--file={path}"]
    with lab.network.node.entered(), in_terminal(command) as terminal:
        terminal.until(lambda: "status.txt" in terminal.said)
        terminal.type("\x03")
        assert terminal.wait() == 128 + signal.SIGINT
    assert list(tmp_path.iterdir()) == []


@nftables
def test_a_file_that_is_there_stays(lab: Lab, tmp_path: Path) -> None:
    lab.run()
    path = tmp_path / "b.tar.gz"
    path.write_text("mine")
    done = bundle(lab, f"--file={path}")
    assert (done.returncode, path.read_text()) == (1, "mine")
    assert b"exists: give --force to replace it" in done.stderr
    assert bundle(lab, f"--file={path}", "--force").returncode == 0
    assert "contents.txt" in unpacked(path.read_bytes())
    assert list(tmp_path.iterdir()) == [path]


@nftables
@pytest.mark.parametrize("where", ["", "/none/b"])
def test_a_place_that_cannot_be_written(lab: Lab, tmp_path: Path, where: str) -> None:
    lab.run()
    done = bundle(lab, f"--file={tmp_path}{where}")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(b"Error: /")
