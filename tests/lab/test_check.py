"""`kube-proxy check` on nodes of all sorts: it finds what is there, and leaves it as it is."""

import ctypes
import errno
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from dataplane.leftover_rules import IPTABLES, kubelet, ordinary, others, rules
from fakes.programs import only_in
from kubeproxy.base.inet import Family
from kubeproxy.config.flags import parse_flags
from kubeproxy.config.load import load
from kubeproxy.dataplane.modes import MODES, load_mode
from kubeproxy.dataplane.preflight import NODE, Finding, ok
from kubeproxy.linux.tools import RuleKind, find
from kubeproxy.tools.check import scratch
from kubeproxy.tools.check.command import Plan, survey
from kubeproxy.tools.check.judge import Report
from kubeproxy.tools.check.scratch import Broken, Child, Trial, TrialResult
from lab.cleaning import restore_beside
from lab.namespaces import Namespace
from lab.upstream import SINCE_1_33, Upstream, start
from lab.xtables import programs

KUBE_PROXY = [sys.executable, "-m", "kubeproxy"]
UPSTREAMS = (
    "table {} kube-proxy {{ set cluster-ips {{ type ipv4_addr; }}; chain services {{ }}; }}\n"
)
LEGACY = ("iptables-legacy-save", "ip6tables-legacy-save")


@pytest.fixture
def node() -> Iterator[Namespace]:
    """A kernel without rules."""
    namespace = Namespace("check")
    yield namespace
    namespace.close()


class Answer:
    """What the check said."""

    def __init__(self, code: int, text: str) -> None:
        self.code = code
        self._said = json.loads(text)
        self.ready = {each["mode"]: each["ready"] for each in self._said["verdicts"]}
        self.conclusions = {each["mode"]: each["conclusion"] for each in self._said["verdicts"]}

    def states(self, topic: str) -> dict[str, str]:
        """The state of each thing of a topic."""
        return {
            each["what"]: each["state"]
            for each in self._said["findings"]
            if each["topic"] == topic
        }

    def of(self, topic: str, what: str) -> list[dict[str, str]]:
        """The findings about one thing."""
        findings = self._said["findings"]
        return [each for each in findings if (each["topic"], each["what"]) == (topic, what)]


def check(node: Namespace, *arguments: str, through: Sequence[str] = ()) -> Answer:
    """Run it on the node, and compare the node with what it was before."""
    before = everything(node)
    command = [*through, *KUBE_PROXY, "check", "-o", "json", *arguments]
    with node.entered():
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert before == everything(node)
    return Answer(done.returncode, done.stdout)


def everything(node: Namespace) -> Mapping[str, str]:
    """All that a proxy could change, and more."""
    seen = {
        "nftables": node.run(["nft", "list", "ruleset"]),
        "ipset": node.run(["ipset", "save"]),
        "links": node.run(["ip", "-details", "address"]),
        "routes": node.run(["ip", "route", "show", "table", "all"]),
    }
    with node.entered():
        has_legacy = Path("/proc/net/ip_tables_names").read_text() != ""
        for path in sorted(Path("/proc/sys/net").rglob("*")):
            if path.is_file() and os.access(path, os.R_OK) and path.stat().st_mode & 0o444:
                seen[str(path)] = _read(path)
    for program in LEGACY if has_legacy else ():
        lines = node.run([program]).splitlines()
        seen[program] = "\n".join(line for line in lines if not line.startswith("#"))
    return seen


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        return str(error)


def restore(node: Namespace, backend: RuleKind) -> None:
    for family in Family:
        text = ordinary(rules(IPTABLES, family))
        restore_beside(node, backend, family, text + kubelet(family) + others(family))


# --- a node without a proxy -------------------------------------------------------------------


@pytest.mark.parametrize("backend", RuleKind)
def test_a_fresh_node(node: Namespace, backend: RuleKind, tmp_path: Path) -> None:
    with programs(backend, tmp_path / "bin"):
        answer = check(node)
    assert answer.code == 0
    assert answer.ready["nftables"]
    assert answer.ready["iptables"]
    rule_sets = {"IPv4 rules": "ok", "IPv6 rules": "ok"}
    healing = {"IPv4 healing": "ok", "IPv6 healing": "ok"}
    assert answer.states("nftables") == {"kernel": "ok", **rule_sets, **healing, "fast path": "ok"}
    assert rule_sets.items() <= answer.states("iptables").items()
    assert answer.states("rivals") == {"rules of others": "ok"}
    word = "nf_tables" if backend is RuleKind.NFT else "legacy"
    assert f"({word})" in answer.of("programs", "iptables")[0]["detail"]


def test_a_family_that_is_not_served_needs_no_settings(node: Namespace) -> None:
    assert "net.ipv6.conf.all.forwarding" in check(node).states("node")
    node.run(["sysctl", "-w", "net.ipv6.conf.all.disable_ipv6=1"])
    assert not [what for what in check(node).states("node") if "ipv6" in what]


def test_one_mode_is_enough_when_it_is_the_one_that_is_wanted(node: Namespace) -> None:
    answer = check(node, "--proxy-mode=nftables")
    assert (answer.code, list(answer.ready)) == (0, ["nftables"])
    assert answer.states("iptables") == {}


def test_people_get_text(node: Namespace) -> None:
    with node.entered():
        done = subprocess.run([*KUBE_PROXY, "check"], capture_output=True, text=True, check=True)
    assert "  ok  IPv4 rules    a whole rule set written" in done.stdout
    assert "\nnftables: ready" in done.stdout.replace("  ", " ")


def test_a_match_that_is_missing_is_named(
    node: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All extensions of iptables but one."""
    ours = tmp_path / "extensions"
    ours.mkdir()
    for library in _extensions().iterdir():
        if library.name != "libxt_recent.so":
            (ours / library.name).symlink_to(library)
    monkeypatch.setenv("XTABLES_LIBDIR", str(ours))
    answer = check(node, "--proxy-mode=iptables")
    assert answer.code == 1
    (finding,) = answer.of("iptables", "IPv4 rules")
    assert finding["state"] == "missing"
    assert finding["detail"] == "the kernel or the program lacks recent"
    assert finding["remedy"].startswith("modprobe xt_recent ")
    assert answer.conclusions["iptables"].startswith(
        "not possible: the kernel or the program lacks"
    )


def _extensions() -> Path:
    (found,) = Path("/usr/lib").glob("*/xtables")
    return found


@pytest.fixture
def no_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    only_in(tmp_path, monkeypatch)


@pytest.mark.usefixtures("no_tools")
def test_without_any_tools_nftables_mode_works(
    node: Namespace, capsys: pytest.CaptureFixture[str]
) -> None:
    from kubeproxy.tools.check import command  # noqa: PLC0415  # in this process: its PATH

    with node.entered():
        code = command.main(["-o", "json"])
    answer = Answer(code, capsys.readouterr().out)
    assert (answer.code, answer.ready["nftables"], answer.ready["iptables"]) == (0, True, False)
    assert answer.states("programs") == {"iptables": "missing", "ip6tables": "missing"}
    assert answer.conclusions["iptables"] == (
        "not possible: iptables, iptables-save, iptables-restore are not installed, or not in"
        " PATH: install iptables, or choose nftables (and 1 more)"
    )
    assert answer.states("ipvs")["ipset"] == "missing"


def test_tools_that_are_too_old(node: Namespace, tmp_path: Path) -> None:
    for name, version in {"iptables": "1.6.1", "ip6tables": "1.6.1", "ipset": "4.5"}.items():
        said = f'[ "$1" != --version ] || exec echo {name} v{version}'
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\n{said}\nexec {find(name)} "$@"\n')
        program.chmod(0o755)
    answer = check(node, through=["env", f"PATH={tmp_path}:{os.environ['PATH']}"])
    assert answer.ready == {
        "nftables": True,
        "iptables": False,
        "ipvs": False,
        "userspace": True,
    }
    assert answer.conclusions["iptables"].startswith(
        "not possible: iptables v1.6.1 is too old, 1.6.2 or later is needed: its restore waits for"
        " the lock: install a newer one, or choose nftables"
    )
    (finding,) = answer.of("ipvs", "ipset")
    assert finding["state"] == "missing"
    assert finding["detail"] == "ipset v4.5 is too old, 6.0 or later is needed"
    assert finding["remedy"] == "install a newer one, or choose nftables"


# --- a node with a proxy ----------------------------------------------------------------------


def test_the_table_of_the_go_kube_proxy(node: Namespace) -> None:
    node.run(["nft", "-f", "-"], UPSTREAMS.format("ip") + UPSTREAMS.format("ip6"))
    (finding,) = check(node, "--proxy-mode=nftables").of("rivals", "nftables table kube-proxy")
    assert finding["state"] == "ok"
    assert finding["detail"] == "another kube-proxy's, ip and ip6; replaced in one transaction"


def test_a_table_of_our_own(node: Namespace) -> None:
    ours = subprocess.run(
        [*KUBE_PROXY, "render", "--manifests=examples", "--node=kestrel", "--family=IPv4"],
        capture_output=True,
        text=True,
        check=True,
    )
    node.run(["nft", "-f", "-"], ours.stdout)
    (finding,) = check(node, "--proxy-mode=nftables").of("rivals", "nftables table kube-proxy")
    assert finding["detail"].startswith("this program's, ip; taken over")
    go = Upstream(Family.IPV4, SINCE_1_33, None)
    node.run(["nft", "-f", "-"], start(go, [], node))  # which leaves most of ours
    (finding,) = check(node, "--proxy-mode=nftables").of("rivals", "nftables table kube-proxy")
    assert finding["detail"].startswith("another kube-proxy's, ip; replaced")


@pytest.mark.parametrize("backend", RuleKind)
def test_the_chains_of_iptables_mode(node: Namespace, backend: RuleKind, tmp_path: Path) -> None:
    restore(node, backend)
    what = f"iptables-{backend.value} chains"
    with programs(backend, tmp_path / "same"):
        fine, warned = check(node).of("rivals", what)
    assert (fine["state"], warned["state"]) == ("ok", "warning")
    assert (
        "nftables and userspace mode: removed after the first sync; iptables mode: taken over"
        in fine["detail"]
    )
    assert "ipvs mode: those that are not used any more stay" in warned["detail"]
    other = RuleKind.LEGACY if backend is RuleKind.NFT else RuleKind.NFT
    with programs(other, tmp_path / "other"):
        (finding,) = check(node, "--proxy-mode=iptables").of("rivals", what)
    assert finding["state"] == "warning"
    assert f"they stay beside those of iptables-{other.value}" in finding["detail"]


def test_what_ipvs_mode_left(node: Namespace) -> None:
    node.run(["ipset", "create", "KUBE-IPVS-IPS", "hash:ip"])
    node.run(["ipset", "create", "blocklist", "hash:ip"])
    node.run(["ip", "link", "add", "kube-ipvs0", "type", "bridge"])
    (finding,) = check(node, "--proxy-mode=nftables").of("rivals", "leftovers of ipvs mode")
    assert finding["detail"] == (
        "ipsets KUBE-* (1), device kube-ipvs0; removed after the first sync"
    )


def test_a_program_that_fails_is_quoted_and_what_it_would_list_is_not_absent(
    node: Namespace, tmp_path: Path
) -> None:
    node.run(["iptables-legacy", "-A", "INPUT", "-j", "ACCEPT"])
    program = tmp_path / "iptables-legacy-save"
    program.write_text("#!/bin/sh\necho 'Kernel error received' >&2; exit 1\n")
    program.chmod(0o755)
    through = ["env", f"PATH={tmp_path}:{os.environ['PATH']}"]
    answer = check(node, "--proxy-mode=nftables", through=through)
    (finding,) = answer.of("rivals", "rules of others")
    assert finding["state"] == "unknown"
    assert finding["detail"] == "could not be looked at: chains of iptables-legacy"
    assert finding["remedy"].startswith("see why this fails: ")
    assert "Kernel error received" in finding["remedy"]


def test_other_programs_that_serve_services(node: Namespace) -> None:
    for device in ("cilium_host", "bpfin.cali", "kube-dummy-if"):
        node.run(["ip", "link", "add", device, "type", "bridge"])
    states = check(node, "--proxy-mode=nftables").states("rivals")
    assert states["Calico's eBPF dataplane"] == "warning"
    assert states["kube-router"] == "warning"
    assert "Cilium" in states


@pytest.mark.parametrize(
    ("pin", "what", "state"),
    [
        pytest.param("cilium_nodeport_neigh4", "Cilium", "warning", id="cilium-for-kube-proxy"),
        pytest.param("cilium_lxc", "Cilium", "ok", id="cilium-beside-kube-proxy"),
        pytest.param("cali_v4_nat_fe3", "Calico's eBPF dataplane", "warning", id="calico"),
    ],
)
def test_programs_are_known_by_their_maps(
    node: Namespace, pin: str, what: str, state: str
) -> None:
    node.run(["ip", "link", "add", "cilium_host", "type", "bridge"])
    pins = "/sys/fs/bpf"
    script = f'mount -t tmpfs none {pins} && mkdir -p {pins}/tc/globals/{pin} && exec "$@"'
    through = ["unshare", "--mount", "sh", "-c", script, "sh"]
    answer = check(node, "--proxy-mode=nftables", through=through)
    assert answer.states("rivals")[what] == state


def test_a_port_that_is_taken(node: Namespace) -> None:
    node.run(["ip", "link", "set", "lo", "up"])
    with node.entered():
        server = socket.create_server(("127.0.0.1", 0))
    with server:
        where = f"127.0.0.1:{server.getsockname()[1]}"
        flags = (f"--metrics-bind-address={where}", "--proxy-mode=nftables")
        (finding,) = check(node, *flags).of("ports", f"metrics {where}")
        assert finding["state"] == "warning"
        assert f"(pid {os.getpid()})" in finding["detail"]
        assert check(node, *flags, "--bind-address-hard-fail").code == 1


# --- with fewer rights ------------------------------------------------------------------------


def test_root_without_the_capability(node: Namespace) -> None:
    through = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--"]
    node.run(["nft", "-f", "-"], UPSTREAMS.format("ip"))
    answer = check(node, "--proxy-mode=nftables", through=through)
    assert answer.code == 1
    assert answer.states("node")["CAP_NET_ADMIN"] == "missing"
    assert "NET_ADMIN" in answer.conclusions["nftables"]
    (unseen,) = answer.of("rivals", "rules of others")
    assert unseen["state"] == "unknown"
    assert "nftables tables" in unseen["detail"]
    assert unseen["remedy"] == "run this check as root, with CAP_NET_ADMIN"


def test_where_there_can_be_no_scratch_namespace(node: Namespace) -> None:
    """As in a pod with NET_ADMIN and the usual seccomp profile: rules are only rehearsed."""
    script = 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"'
    through = [
        *("unshare", "--user", "--map-root-user", "--net", "sh", "-c", script, "sh"),
        *("setpriv", "--bounding-set=-all,+net_admin", "--inh-caps=-all", "--"),
    ]
    answer = check(node, through=through)
    assert answer.code == 0
    (rules_,) = answer.of("nftables", "IPv4 rules")
    assert "it was only asked" in rules_["detail"]
    (untried,) = answer.of("iptables", "rules")
    assert untried["state"] == "untried"
    assert "a scratch network namespace is refused" in untried["detail"]
    assert answer.conclusions["iptables"].startswith("not known: could not be tried")
    assert answer.of("node", "conntrack")[0]["state"] == "unknown"
    assert check(node, "--mode=iptables", through=through).code == 2


def test_a_user_for_whom_there_can_be_no_scratch_namespace(node: Namespace) -> None:
    """Nothing was tried, so that nothing is known."""
    script = 'echo 1 >/proc/sys/user/max_user_namespaces && exec "$@"'
    through = [
        *("unshare", "--user", "--map-root-user", "sh", "-c", script, "sh"),
        *("unshare", "--user", "--map-user=1000", "--net", "--"),
    ]
    answer = check(node, "--mode=nftables", through=through)
    assert (answer.code, answer.ready) == (2, {"nftables": False})
    assert answer.of("nftables", "rules")[0]["state"] == "untried"
    assert answer.conclusions["nftables"].startswith("not known: could not be tried")


# --- a trial without a result -----------------------------------------------------------------


def judged(node: Namespace, trial: Trial, seconds: float = 60.0) -> Report:
    """A survey of nftables mode with another trial, which is run as its own would be."""
    mode = replace(load_mode("nftables"), trial=lambda *_: trial())
    config = load(parse_flags([]), MODES, mode.name).config
    with node.entered():
        return survey([Plan(mode, config)], seconds)


def never() -> list[Finding]:
    time.sleep(600)
    return []


def breaks() -> list[Finding]:
    raise ZeroDivisionError("by nothing")


def is_killed() -> list[Finding]:
    os.kill(os.getpid(), signal.SIGKILL)
    return []


@pytest.mark.parametrize(
    ("trial", "seconds", "why"),
    [
        pytest.param(never, 0.5, "it did not end in time: run this check again when", id="never"),
        pytest.param(breaks, 60.0, "it failed: ZeroDivisionError: by nothing", id="breaks"),
        pytest.param(is_killed, 60.0, "it failed: killed by SIGKILL", id="killed"),
        pytest.param(lambda: os._exit(0), 60.0, "it failed: exit code 0", id="leaves-nothing"),
    ],
)
def test_a_mode_is_not_ready_when_its_trial_has_no_result(
    node: Namespace, trial: Trial, seconds: float, why: str
) -> None:
    report = judged(node, trial, seconds)
    (verdict,) = report.verdicts
    assert (report.works, report.known) == (verdict.ready, verdict.known) == (False, False)
    assert verdict.conclusion.startswith(
        f"not known: the trial in a scratch namespace has no result: {why}"
    )


def descriptors() -> int:
    """How many this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_mode_is_not_ready_when_no_process_can_be_started(
    node: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fork() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", fork)
    before = descriptors()
    (verdict,) = judged(node, list).verdicts
    assert not verdict.known
    assert "no process can be started for it: Resource temporarily" in verdict.conclusion
    assert before == descriptors()


def test_a_namespace_in_which_nothing_may_be_changed_is_none(
    node: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As some security modules have it: namespaces may be made, and give no capabilities."""
    real = scratch.enter

    def enter() -> None:
        real()
        header, nothing = struct.pack("=Ii", 0x20080522, 0), bytes(24)
        assert ctypes.CDLL(None).capset(header, nothing) == 0

    monkeypatch.setattr(scratch, "enter", enter)
    with node.entered():
        assert outcome(list) == TrialResult(refused="nothing in it may be changed")


def test_a_program_that_hangs_leaves_its_mode_open_and_says_so_meanwhile(
    node: Namespace, tmp_path: Path
) -> None:
    program = tmp_path / "iptables-restore"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    before = everything(node)
    with node.entered():
        done = subprocess.run(
            [*KUBE_PROXY, "check", "--mode=iptables", "--timeout=7s", "-o=json"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    assert before == everything(node)
    assert done.stderr == "note: still trying iptables; the limit is 7 s (--timeout)\n"
    answer = Answer(done.returncode, done.stdout)
    assert (answer.code, answer.ready) == (2, {"iptables": False})
    assert answer.conclusions["iptables"].startswith("not known: ")


def test_an_ipset_that_is_killed_says_nothing_about_the_kernel(
    node: Namespace, tmp_path: Path
) -> None:
    program = tmp_path / "ipset"
    program.write_text(
        f'#!/bin/sh\n[ "$1" != restore ] || kill -9 $$\nexec {find("ipset")} "$@"\n'
    )
    program.chmod(0o755)
    through = ["env", f"PATH={tmp_path}:{os.environ['PATH']}"]
    (finding,) = check(node, "--mode=ipvs", through=through).of("ipvs", "ipset")
    assert finding["state"] == "untried"
    assert "killed by SIGKILL" in finding["detail"]


# --- the child ----------------------------------------------------------------------------------


def outcome(trial: object, seconds: float = 20.0) -> TrialResult | Broken:
    assert callable(trial)
    return Child(trial).outcome(time.monotonic() + seconds)


def test_a_child_is_somewhere_else() -> None:
    def trial() -> list[Finding]:
        devices = ", ".join(name for _, name in socket.if_nameindex())
        return [ok(NODE, "devices", devices)]

    assert outcome(trial) == TrialResult((ok(NODE, "devices", "lo"),))


def test_a_child_with_much_to_say() -> None:
    finding = ok(NODE, "words", "x" * 1000)
    assert outcome(lambda: [finding] * 500) == TrialResult((finding,) * 500)


def test_a_child_that_breaks() -> None:
    def trial() -> list[Finding]:
        raise ZeroDivisionError("by nothing")

    assert outcome(trial) == Broken("it failed: ZeroDivisionError: by nothing")


def test_a_child_that_dies() -> None:
    def trial() -> list[Finding]:
        os._exit(9)

    assert outcome(trial) == Broken("it failed: exit code 9")


def test_a_child_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    sleep = find("sleep")
    assert sleep is not None

    def trial() -> list[Finding]:
        started = subprocess.Popen([sleep, "600"])
        pid.write_text(str(started.pid))
        started.wait()
        return []

    child = Child(trial)
    wait_until(lambda: pid.exists() and pid.read_text() != "")
    assert child.outcome(time.monotonic()) == Broken("it did not end in time", slow=True)
    wait_until(lambda: not _is_alive(int(pid.read_text())))


def test_a_child_that_cannot_be_killed_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that waits for the kernel and is not to be interrupted."""
    child = Child(never)
    with monkeypatch.context() as patched:
        patched.setattr(scratch, "_KILL_SECONDS", 0.1)
        patched.setattr(os, "killpg", lambda *_: None)
        patched.setattr(os, "kill", lambda *_: None)
        assert child.outcome(time.monotonic()) == Broken("it did not end in time", slow=True)
    os.kill(child.pid, signal.SIGKILL)
    os.waitpid(child.pid, 0)


def test_trials_that_take_long_are_reported_with_growing_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scratch, "_FIRST_REPORT", 0.2)
    reports: list[tuple[str, ...]] = []
    trials = {"quick": scratch.start(list), "slow": scratch.start(never)}
    found = scratch.outcomes(trials, 2.0, lambda names: reports.append(tuple(names)))
    assert found["slow"] == Broken("it did not end in time", slow=True)
    assert found["quick"] == TrialResult()
    assert reports[-1] == ("slow",)
    assert len(reports) <= 4  # after 0.2, 0.6 and 1.4 s, and perhaps one for the quick one


HANGING = """
import pathlib, subprocess, sys, time
from kubeproxy.tools.check.scratch import Child

def trial():
    started = subprocess.Popen(["sleep", "600"])
    pathlib.Path(sys.argv[1]).write_text(str(started.pid))
    started.wait()
    return []

Child(trial).outcome(time.monotonic() + 600)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_child_ends_with_its_parent(tmp_path: Path, number: signal.Signals) -> None:
    pid = tmp_path / "pid"
    parent = subprocess.Popen([sys.executable, "-c", HANGING, str(pid)], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: pid.exists() and pid.read_text() != "")
        parent.send_signal(number)
        parent.wait(20)
    finally:
        parent.kill()
        parent.wait()
    wait_until(lambda: not _is_alive(int(pid.read_text())))


def test_programs_behind_a_link_in_run_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory is the child's own, and what it led to is still there."""
    (tmp_path / "bin").mkdir()
    run = tmp_path / "run"
    run.mkdir()
    (run / "current-system").symlink_to(tmp_path)
    (run / "xtables.lock").touch()
    monkeypatch.setattr(scratch, "_LOCKS", run)

    def trial() -> list[Finding]:
        (run / "new").touch()
        seen = f"{(run / 'current-system/bin').is_dir()} {(run / 'xtables.lock').exists()}"
        return [ok(NODE, "run", seen)]

    assert outcome(trial) == TrialResult((ok(NODE, "run", "True False"),))
    assert not (run / "new").exists()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]
    except FileNotFoundError:
        return False
