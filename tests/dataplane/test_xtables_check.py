"""What a restore that fails says about the kernel, and when it says nothing."""

from pathlib import Path

import pytest

from fakes.programs import install, only_in
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.preflight import Grade
from kubeproxy.dataplane.xtables_check import restored
from kubeproxy.linux import xtables

TEXT = "*nat\n:KUBE-X - [0:0]\n-A KUBE-X -m recent -j RETURN\n-A KUBE-X -j MARK\nCOMMIT\n"
REFUSES_RECENT = "if /bin/grep -q recent; then echo no recent >&2; exit 2; fi"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that holds all programs there are."""
    only_in(tmp_path, monkeypatch)
    return tmp_path


@pytest.mark.parametrize(
    ("script", "state", "detail"),
    [
        pytest.param("/bin/cat >/dev/null", Grade.OK, "2 rules written", id="written"),
        pytest.param(
            REFUSES_RECENT,
            Grade.MISSING,
            "the kernel or the program lacks recent",
            id="what-is-refused-alone-is-missing",
        ),
        pytest.param("kill -9 $$", Grade.UNTRIED, "killed by SIGKILL", id="killed"),
        pytest.param(
            f"[ -e seen ] && kill -9 $$; >seen; {REFUSES_RECENT}",
            Grade.UNTRIED,
            "killed by SIGKILL",
            id="killed-while-the-cause-is-looked-for",
        ),
        pytest.param(
            "exec /bin/sleep 60", Grade.UNTRIED, "did not end within 0.5 seconds", id="hangs"
        ),
    ],
)
def test_rules_are_restored(
    programs: Path, monkeypatch: pytest.MonkeyPatch, script: str, state: Grade, detail: str
) -> None:
    monkeypatch.chdir(programs)
    if "sleep" in script:
        monkeypatch.setattr(xtables, "_SECONDS", 0.5)
        monkeypatch.setattr(xtables, "_BYTES_A_SECOND", 10**9)
    install(programs, "iptables-restore", script)
    finding = restored("iptables", Family.IPV4, TEXT)
    assert (finding.topic, finding.what, finding.state) == ("iptables", "IPv4 rules", state)
    assert detail in finding.detail
