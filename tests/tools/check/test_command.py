"""`kube-proxy check`: how it is asked, and how it answers. For what it finds: the lab."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from kubeproxy.base.errors import FieldError
from kubeproxy.config.errors import ConfigError, UsageError
from kubeproxy.dataplane.modes import MODES, all_modes
from kubeproxy.dataplane.preflight import NODE, Finding, lacking, ok
from kubeproxy.tools import command
from kubeproxy.tools.check import command as check
from kubeproxy.tools.check.command import Plan
from kubeproxy.tools.check.judge import ModeVerdict, Report, concerning
from kubeproxy.tools.layout import Display

READY = ModeVerdict("nftables", True, "ready")
NOT_POSSIBLE = ModeVerdict("ipvs", False, "not possible: no ip_vs")
NOT_KNOWN = ModeVerdict("iptables", False, "not known: no result", known=False)
FINDINGS: tuple[Finding, ...] = concerning(
    (
        ok("nftables", "kernel", "6.1"),
        lacking("ipvs", "ip_vs", "no ip_vs", "modprobe it"),
    ),
    all_modes(),
)


class Surveyor:
    """Stands for the look at the node."""

    def __init__(self, *verdicts: ModeVerdict) -> None:
        self.verdicts = verdicts
        self.findings = FINDINGS
        self.plans: list[Sequence[Plan]] = []
        self.seconds = 0.0

    def __call__(self, plans: Sequence[Plan], seconds: float) -> Report:
        self.plans.append(plans)
        self.seconds = seconds
        return Report("kestrel", "6.1", "root", self.verdicts, self.findings)


@pytest.fixture
def survey(monkeypatch: pytest.MonkeyPatch) -> Surveyor:
    surveyor = Surveyor(READY, NOT_POSSIBLE)
    monkeypatch.setattr(check, "survey", surveyor)
    return surveyor


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert "kube-proxy check" in out
    assert "--proxy-mode" in out
    assert "--mode strings\n          Judge this mode: nftables, iptables, ipvs, userspace." in out
    assert "--timeout duration (default 2m0s)" in out
    assert "2 when it is not known" in out
    assert "--kubeconfig" not in out  # it needs no cluster


def test_without_a_mode_all_are_judged(survey: Surveyor) -> None:
    assert check.main(["--ipvs-scheduler=wlc"]) == 0
    (plans,) = survey.plans
    assert list(MODES) == [plan.mode.name for plan in plans]
    assert list(MODES) == [plan.config.mode for plan in plans]
    assert {plan.config.ipvs.scheduler for plan in plans} == {"wlc"}


def test_each_mode_has_its_own_defaults(survey: Surveyor) -> None:
    check.main([])
    nftables, iptables, *_ = survey.plans[0]
    assert nftables.config.node_port_addresses == ("primary",)
    assert iptables.config.node_port_addresses == ()


def test_a_mode_that_is_named(survey: Surveyor) -> None:
    check.main(["--proxy-mode=ipvs"])
    assert [plan.mode.name for plan in survey.plans[0]] == ["ipvs"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["--mode", "iptables"], ["iptables"], id="one"),
        pytest.param(["--mode=ipvs,nftables"], ["ipvs", "nftables"], id="with-a-comma"),
        pytest.param(["--mode=ipvs", "--mode=nftables"], ["ipvs", "nftables"], id="given-twice"),
        pytest.param(["--mode=ipvs, ipvs"], ["ipvs"], id="the-same-twice"),
        pytest.param(["--mode=ipvs", "--proxy-mode=nftables"], ["ipvs"], id="it-wins"),
        pytest.param(["--mode=", "--proxy-mode=ipvs"], ["ipvs"], id="empty-is-none"),
        pytest.param(["--mode="], list(MODES), id="empty-is-all"),
    ],
)
def test_modes_that_are_asked_for(
    survey: Surveyor, arguments: list[str], expected: list[str]
) -> None:
    check.main(arguments)
    assert expected == [plan.mode.name for plan in survey.plans[0]]


def test_a_mode_wins_over_that_of_the_config_file(survey: Surveyor, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1\n"
        "kind: KubeProxyConfiguration\n"
        "mode: iptables\n"
        "metricsBindAddress: 0.0.0.0:9999\n"
    )
    check.main([f"--config={config}", "--mode=nftables"])
    ((plan,),) = survey.plans
    assert (plan.mode.name, plan.config.mode) == ("nftables", "nftables")
    assert plan.config.metrics_bind_address == "0.0.0.0:9999"
    assert plan.config.node_port_addresses == ("primary",)  # as nftables mode has it


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param([], 120.0, id="two-minutes"),
        pytest.param(["--timeout=1m30s"], 90.0, id="given"),
    ],
)
def test_how_long_trials_may_take(survey: Surveyor, arguments: list[str], expected: float) -> None:
    check.main(arguments)
    assert expected == survey.seconds


def test_a_config_file_says_what_is_going_to_be_run(survey: Surveyor, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1\n"
        "kind: KubeProxyConfiguration\n"
        "mode: iptables\n"
        "healthzBindAddress: 0.0.0.0:9999\n"
    )
    check.main([f"--config={config}"])
    ((plan,),) = survey.plans
    assert plan.mode.name == "iptables"
    assert plan.config.healthz_bind_address == "0.0.0.0:9999"


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        pytest.param((READY, NOT_POSSIBLE), 0, id="one-mode-would-work"),
        pytest.param((NOT_POSSIBLE,), 1, id="none-would"),
        pytest.param((NOT_KNOWN,), 2, id="not-known"),
        pytest.param((NOT_POSSIBLE, NOT_KNOWN), 2, id="one-is-not-known"),
        pytest.param((NOT_KNOWN, READY), 0, id="one-would-work-for-certain"),
    ],
)
def test_exit_codes(survey: Surveyor, verdicts: tuple[ModeVerdict, ...], expected: int) -> None:
    survey.verdicts = verdicts
    assert expected == check.main([])


@pytest.mark.usefixtures("survey")
def test_text_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    check.main([])
    out = capsys.readouterr().out
    assert "  !!  ip_vs  no ip_vs\n             -> modprobe it\n" in out
    assert out.endswith("nftables: ready\nipvs:     not possible: no ip_vs\n")
    assert "\x1b" not in out


def test_a_narrow_terminal_has_every_remedy_whole(
    survey: Surveyor, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    remedy = "sysctl -w net.ipv6.conf.all.forwarding=1"
    survey.findings = (lacking(NODE, "forwarding", "is 0", remedy),)
    monkeypatch.setattr(command, "display_of", lambda *_: Display(width=20))
    check.main([])
    assert "net.ipv6.conf.all.forwarding=1\n" in capsys.readouterr().out


@pytest.mark.usefixtures("survey")
def test_json_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    check.main(["-o", "json"])
    answer = json.loads(capsys.readouterr().out)
    assert list(answer) == ["node", "kernel", "checkedAs", "verdicts", "findings"]
    assert answer["verdicts"][0] == {
        "mode": "nftables",
        "ready": True,
        "conclusion": "ready",
        "known": True,
    }
    assert answer["findings"][1] == {
        "topic": "ipvs",
        "what": "ip_vs",
        "state": "missing",
        "detail": "no ip_vs",
        "remedy": "modprobe it",
        "modes": ["ipvs"],
    }


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        pytest.param(["-o", "yaml"], FieldError, "must be text or json", id="output"),
        pytest.param(["nftables"], UsageError, "did you mean --mode nftables", id="arguments"),
        pytest.param(
            ["--mode=nftables,nft"],
            FieldError,
            "--mode nft: must be one of nftables, iptables, ipvs, userspace",
            id="no-such-mode",
        ),
        pytest.param(["--timeout=0s"], FieldError, "--timeout 0s: must be above 0", id="timeout"),
        pytest.param(["--timeout=-5s"], FieldError, "--timeout -5s: must be", id="negative"),
        pytest.param(["--timeout=20"], UsageError, "missing unit", id="timeout-without-unit"),
        pytest.param(["--proxy-mode=none"], ConfigError, "must be iptables, ipvs", id="mode"),
        pytest.param(["--config=/nowhere"], ConfigError, "open /nowhere", id="config"),
    ],
)
def test_mistakes_are_reported_before_anything_is_tried(
    survey: Surveyor, arguments: list[str], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        check.main(arguments)
    assert survey.plans == []
