"""Iptables mode from the command line: which families, and which dataplane."""

from pathlib import Path

import pytest

from kubeproxy.app import wiring
from kubeproxy.app.wiring import Setup
from kubeproxy.base.inet import Family
from kubeproxy.config.flags import parse_flags
from kubeproxy.config.load import load
from kubeproxy.dataplane.iptables.apply import Iptables
from kubeproxy.dataplane.modes import MODES
from kubeproxy.linux.xtables import Xtables, XtablesFailed


def setup_of(*flags: str) -> Setup:
    parsed = parse_flags(["--proxy-mode=iptables", *flags])
    return wiring.setup_of(parsed, load(parsed, MODES), b"")


@pytest.fixture
def _ipv4_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(programs: Xtables) -> None:
        if programs.family is Family.IPV6:
            raise XtablesFailed("ip6tables is not installed")

    monkeypatch.setattr(wiring, "supported_families", lambda: tuple(Family))
    monkeypatch.setattr(Xtables, "check", check)


@pytest.mark.usefixtures("_ipv4_only")
def test_a_family_without_programs_is_not_served(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    setup = setup_of(f"--manifests={tmp_path}")
    assert setup.families == (Family.IPV4,)
    assert isinstance(setup.dataplane(Family.IPV4), Iptables)
    said = capsys.readouterr().err
    assert '"The IP family is not served" err="ip6tables is not installed"' in said


def test_without_any_family_the_reason_is_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(programs: Xtables) -> None:
        raise XtablesFailed(f"{programs.family.value}: CAP_NET_ADMIN is missing")

    monkeypatch.setattr(wiring, "supported_families", lambda: tuple(Family))
    monkeypatch.setattr(Xtables, "check", check)
    with pytest.raises(XtablesFailed, match="IPv4: CAP_NET_ADMIN is missing"):
        setup_of(f"--manifests={tmp_path}")


@pytest.mark.usefixtures("_ipv4_only")
def test_a_dry_run_needs_no_programs(tmp_path: Path) -> None:
    assert setup_of(f"--manifests={tmp_path}", "--dry-run").families == tuple(Family)


@pytest.mark.parametrize("mode", ["iptables", "ipvs"])
def test_programs_that_are_too_old_are_the_error_at_the_start(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("iptables", "ip6tables"):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho {name} v1.6.1\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(wiring, "supported_families", lambda: tuple(Family))
    with pytest.raises(XtablesFailed, match=r"iptables v1\.6\.1 is too old, 1\.6\.2 or later is"):
        setup_of(f"--proxy-mode={mode}", f"--manifests={tmp_path}")
