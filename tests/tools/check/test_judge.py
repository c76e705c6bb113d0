"""What findings come to, for each mode."""

import pytest
from msgspec.structs import replace

from kubeproxy.dataplane.modes import load_mode
from kubeproxy.dataplane.preflight import NODE, PROGRAMS, Finding, Grade, lacking, ok, one_will_do
from kubeproxy.tools.check.judge import Report, concerning, judge

NFTABLES, IPVS = load_mode("nftables"), load_mode("ipvs")
FINE = ok(NODE, "IP families", "IPv4")
ODD = lacking(NODE, "forwarding", "is 0", "sysctl -w it", Grade.WARNING)
DARK = lacking(NODE, "rights", "not seen", "run as root", Grade.UNKNOWN)
UNTRIED = lacking("ipvs", "rules", "no result", "try again", Grade.UNTRIED)
NO_IP_VS = lacking("ipvs", "ip_vs", "the kernel has no ip_vs", "modprobe ip_vs")
NO_DUMMY = lacking("ipvs", "dummy device", "", "modprobe dummy")


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        pytest.param([], "ready", id="nothing-was-found"),
        pytest.param([FINE, FINE], "ready", id="all-is-well"),
        pytest.param([FINE, ODD], "ready, 1 warning", id="one-warning"),
        pytest.param([ODD, FINE, ODD], "ready, 2 warnings", id="two-warnings"),
        pytest.param(
            [DARK],
            "ready as far as can be seen (1 thing could not be)",
            id="something-could-not-be-seen",
        ),
        pytest.param(
            [DARK, ODD, DARK],
            "ready as far as can be seen (2 things could not be), 1 warning",
            id="that-and-a-warning",
        ),
    ],
)
def test_a_mode_that_would_work(findings: list[Finding], expected: str) -> None:
    verdict = judge(IPVS, findings)
    assert (True, expected) == (verdict.ready, verdict.conclusion)


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        pytest.param(
            [ODD, NO_IP_VS],
            "not possible: the kernel has no ip_vs: modprobe ip_vs",
            id="one-thing-is-missing",
        ),
        pytest.param(
            [NO_DUMMY, NO_IP_VS],
            "not possible: dummy device: modprobe dummy (and 1 more)",
            id="the-first-of-two-is-named",
        ),
    ],
)
def test_a_mode_that_would_not_work(findings: list[Finding], expected: str) -> None:
    verdict = judge(IPVS, findings)
    assert (False, expected) == (verdict.ready, verdict.conclusion)


@pytest.mark.parametrize(
    ("findings", "known", "expected"),
    [
        pytest.param([UNTRIED], False, "not known: no result: try again", id="no-result"),
        pytest.param(
            [FINE, DARK, UNTRIED, ODD, UNTRIED],
            False,
            "not known: no result: try again (and 1 more)",
            id="whatever-else-is-well",
        ),
        pytest.param(
            [UNTRIED, NO_IP_VS],
            True,
            "not possible: the kernel has no ip_vs: modprobe ip_vs",
            id="what-is-missing-decides",
        ),
    ],
)
def test_a_mode_of_which_a_trial_has_no_result_is_not_ready(
    findings: list[Finding], known: bool, expected: str
) -> None:
    verdict = judge(IPVS, findings)
    assert (False, known, expected) == (verdict.ready, verdict.known, verdict.conclusion)
    assert judge(NFTABLES, [UNTRIED]).conclusion == "ready"


def test_what_another_mode_lacks_is_no_matter() -> None:
    assert judge(NFTABLES, [NO_IP_VS]).conclusion == "ready"


def test_a_report_works_when_any_mode_would() -> None:
    verdicts = (judge(IPVS, [NO_IP_VS]), judge(NFTABLES, [NO_IP_VS]))
    assert Report("kestrel", "6.1", "root", verdicts, ()).works
    assert Report("kestrel", "6.1", "root", (judge(IPVS, [UNTRIED]), verdicts[1]), ()).known
    assert not Report("kestrel", "6.1", "root", (judge(IPVS, [UNTRIED]),), ()).known
    assert Report("kestrel", "6.1", "root", verdicts[:1], ()).known
    assert not Report("kestrel", "6.1", "root", verdicts[:1], ()).works


def test_findings_of_other_modes_are_left_out() -> None:
    found = concerning([FINE, NO_IP_VS], [NFTABLES])
    assert [(f.what, f.modes) for f in found] == [("IP families", ("nftables",))]


def test_a_finding_may_name_its_modes() -> None:
    found = concerning([replace(FINE, modes=("ipvs",))], [NFTABLES, IPVS])
    assert [finding.modes for finding in found] == [("ipvs",)]


def test_programs_matter_for_the_modes_that_run_them() -> None:
    missing = lacking(PROGRAMS, "iptables", "not installed", "install iptables")
    found = concerning([missing], [NFTABLES, IPVS])
    assert [finding.modes for finding in found] == [("ipvs",)]


def test_one_family_will_do() -> None:
    fine = ok("iptables", "IPv4 rules")
    bad = lacking("iptables", "IPv6 rules", "no ip6tables", "install it")
    assert (bad, bad) == one_will_do([bad, bad], "not served")
    first, second = one_will_do([fine, bad], "the family is not served")
    assert first == fine
    assert second.state is Grade.WARNING
    assert second.detail == "the family is not served: no ip6tables"
