"""The daemon's command line: what it prints, what it refuses, and how it ends."""

import asyncio
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import yaml

from kubeproxy.app import run, wiring
from kubeproxy.app.cli import main
from kubeproxy.app.daemon import Daemon
from kubeproxy.app.wiring import Setup
from kubeproxy.base import klog
from kubeproxy.base.commit import commit
from kubeproxy.base.inet import Family
from kubeproxy.base.version import KUBERNETES_VERSION, VERSION, described
from kubeproxy.cluster.manifests.source import Manifests
from kubeproxy.cluster.watch.apiserver import ApiServer
from kubeproxy.config.flags import parse_flags
from kubeproxy.config.load import load
from kubeproxy.dataplane.dryrun import DryRun
from kubeproxy.dataplane.modes import MODES
from tools.manifests import SHOP, write, write_kubeconfig
from waiting import until

HEADER = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"


@pytest.fixture(autouse=True)
def _own_log(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The daemon sets up the log of the process; every test gets it as it was."""
    root = logging.getLogger()
    handlers = list(root.handlers)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    yield
    root.handlers[:] = handlers
    klog.configure(klog.LogSettings())


class Called:
    """Calls the daemon, and keeps what came of it."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.out = ""
        self.err = ""

    def __call__(self, *arguments: str) -> int:
        code = main(arguments)
        self.out, self.err = self._capsys.readouterr()
        return code

    @property
    def logged(self) -> list[str]:
        """The log lines without their heads."""
        return re.findall(r"^[IWE]\d{4} [^]]+\] (.*)$", self.err, re.MULTILINE)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Called:
    return Called(capsys)


# --- what ends at once ------------------------------------------------------------------------


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help(call: Called, flag: str) -> None:
    assert call(flag, "and", "more") == 0
    assert call.out.startswith(
        "Usage:\n  kube-proxy [flags]\n  kube-proxy COMMAND [flags]\n\nCommands "
    )
    assert "\n\nGeneral flags:\n      --config string" in call.out
    assert call.err == ""
    assert {"--proxy-mode", "--manifests", "--cluster-cidr"} <= set(call.out.split())
    assert "--log-dir" not in call.out


def test_version(call: Called) -> None:
    assert call("--version") == 0
    assert (f"{described(commit())}\n", "") == (call.out, call.err)
    assert call.out.endswith(f", Kubernetes {KUBERNETES_VERSION}\n")


def test_raw_version(call: Called) -> None:
    assert call("--version=raw") == 0
    assert call.out.startswith('version.Info{Program:"kubeproxy ')
    assert f'GitVersion:"{KUBERNETES_VERSION}"' in call.out


def test_written_configuration_is_the_effective_one(call: Called, tmp_path: Path) -> None:
    target = tmp_path / "config.yaml"
    flags = ("--cluster-cidr=10.64.0.0/14", "--proxy-mode=ipvs", f"--write-config-to={target}")
    assert call(*flags) == 0
    assert [f'"Wrote configuration" file="{target}"'] == call.logged[-1:]
    written = yaml.safe_load(target.read_text())
    assert (
        written["kind"],
        written["mode"],
        written["clusterCIDR"],
    ) == ("KubeProxyConfiguration", "ipvs", "10.64.0.0/14")


def test_written_configuration_reads_back_as_itself(call: Called, tmp_path: Path) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    assert call("--masquerade-all", f"--write-config-to={first}") == 0
    assert call(f"--config={first}", f"--write-config-to={second}") == 0
    assert first.read_text() == second.read_text()


def test_configuration_can_be_written_to_standard_output(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert main(["--write-config-to=/dev/stdout"]) == 0
    assert yaml.safe_load(capfd.readouterr().out)["kind"] == "KubeProxyConfiguration"


def test_configuration_that_cannot_be_written(call: Called) -> None:
    assert call("--write-config-to=/nowhere/config.yaml") == 1
    expected = '"command failed" err="open /nowhere/config.yaml: no such file or directory"'
    assert expected == call.logged[-1]


def test_flags_are_logged_for_those_who_ask(call: Called, tmp_path: Path) -> None:
    assert call("-v=1", f"--write-config-to={tmp_path}/config.yaml") == 0
    assert 'FLAG: --v="1"' in call.logged
    assert 'FLAG: --proxy-mode=""' in call.logged
    assert call(f"--write-config-to={tmp_path}/config.yaml") == 0
    assert [line for line in call.logged if line.startswith("FLAG")] == []


def test_deprecated_flags_are_told_before_the_log_begins(call: Called, tmp_path: Path) -> None:
    assert call("--healthz-port=10256", f"--write-config-to={tmp_path}/config.yaml") == 0
    assert call.err.startswith("Flag --healthz-port has been deprecated, ")


def test_notices_about_the_configuration_are_logged(call: Called, tmp_path: Path) -> None:
    assert call("--proxy-mode=ipvs", f"--write-config-to={tmp_path}/config.yaml") == 0
    assert call.logged[0].startswith('"The ipvs proxy mode is deprecated: ')


# --- wrong use --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(
            ["--proxymode=ipvs"],
            "unknown flag: --proxymode (did you mean --proxy-mode?)",
            id="unknown-flag",
        ),
        pytest.param(
            ["--log-dir=/tmp"],
            "unknown flag: --log-dir: Kubernetes removed it in 1.26: logs go to standard error;"
            " leave it out",
            id="removed-flag",
        ),
        pytest.param(["-x"], "unknown shorthand flag: 'x' in -x", id="unknown-shorthand"),
        pytest.param(["--config"], "flag needs an argument: --config", id="missing-value"),
        pytest.param(
            ["--masquerade-all=maybe"],
            'invalid argument "maybe" for "--masquerade-all" flag: strconv.ParseBool: parsing '
            '"maybe": invalid syntax',
            id="wrong-type",
        ),
        pytest.param(
            ["--bind-address=10.0.0.300"],
            'invalid argument "10.0.0.300" for "--bind-address" flag: "10.0.0.300" is not a '
            "valid IP address",
            id="bad-address",
        ),
        pytest.param(
            ["--version=v1.2"],
            'invalid argument "v1.2" for "--version" flag: could not parse "v1.2" as version',
            id="bad-version",
        ),
    ],
)
def test_a_command_line_that_cannot_be_read(
    call: Called, arguments: list[str], expected: str
) -> None:
    assert call(*arguments) == 1
    usage, error = call.err.rsplit("\n", 2)[:2]
    assert (f"Error: {expected}", "") == (error, call.out)
    assert usage.startswith("Usage:\n  kube-proxy [flags]\n")


def test_arguments_that_are_no_flags(call: Called) -> None:
    assert call("--", "run", "it") == 1
    expected = 'Error: "kube-proxy" does not take any arguments, got ["run" "it"]\n'
    assert ("", expected) == (call.out, call.err)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        pytest.param(
            ["--cluster-cidr=10.64.0.0/33"],
            "failed validate: KubeProxyConfiguration.DetectLocalConfiguration.ClusterCIDRs[0]: "
            'Invalid value: \\"10.64.0.0/33\\": must be a valid CIDR block (e.g. 10.100.0.0/16 '
            "or fde4:8dba:82e1::/48)",
            id="bad-cidr",
        ),
        pytest.param(
            ["--proxy-mode=kernelspace"],
            "failed validate: KubeProxyConfiguration.Mode.ProxyMode: Invalid value: "
            '\\"kernelspace\\": must be iptables, ipvs, nftables, userspace or blank (blank '
            "means the best-available proxy [currently nftables]); it has always been for Windows"
            " nodes only: on Linux use nftables",
            id="bad-mode",
        ),
        pytest.param(
            ["--iptables-min-sync-period=1m", "--iptables-sync-period=30s"],
            'failed validate: KubeProxyConfiguration.SyncPeriod: Invalid value: \\"1m0s\\": must '
            "be greater than or equal to KubeProxyConfiguration.MinSyncPeriod",
            id="conflicting-periods",
        ),
        pytest.param(
            ["--detect-local-mode=BridgeInterface", "--cluster-cidr=10.64.0.0/14"],
            "failed validate: KubeProxyConfiguration.DetectLocalConfiguration.InterfaceName: "
            'Invalid value: \\"\\": must not be empty',
            id="mode-without-its-value",
        ),
        pytest.param(
            ["--nodeport-addresses=primary,primary"],
            "failed validate: KubeProxyConfiguration.NodePortAddresses[1]: Duplicate value: "
            '\\"primary\\"',
            id="twice",
        ),
        pytest.param(
            ["--feature-gates=KubeProxyIPVS=false", "--proxy-mode=ipvs"],
            'failed validate: KubeProxyConfiguration.Mode.ProxyMode: Invalid value: \\"ipvs\\": '
            "must be iptables, nftables, userspace or blank (blank means the best-available proxy "
            "[currently nftables])",
            id="gate-against-mode",
        ),
        pytest.param(
            ["--feature-gates=NFTablesProxyMod=true"],
            "failed complete: unrecognized feature gate: NFTablesProxyMod (did you mean "
            "NFTablesProxyMode?)",
            id="unknown-gate",
        ),
        pytest.param(
            ["--config=/nowhere"],
            "failed complete: open /nowhere: no such file or directory",
            id="no-config-file",
        ),
        pytest.param(
            ["--kubeconfig=/nowhere", "--dry-run"],
            "stat /nowhere: no such file or directory; check --kubeconfig or "
            "clientConnection.kubeconfig",
            id="no-kubeconfig",
        ),
        pytest.param(
            ["--dry-run"],
            "unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and "
            "KUBERNETES_SERVICE_PORT must be defined; outside a pod give --kubeconfig",
            id="no-cluster",
        ),
        pytest.param(
            ["--manifests=/nowhere", "--dry-run"],
            "the manifests in /nowhere cannot be read: No such file or directory",
            id="no-manifests",
        ),
        pytest.param(
            ["--manifests=/nowhere", "--dry-run", "--hostname-override= "],
            "failed complete: empty hostname-override is invalid",
            id="no-name",
        ),
    ],
)
def test_settings_that_cannot_be_used(call: Called, flags: list[str], expected: str) -> None:
    assert call(*flags) == 1
    assert ("", f'"command failed" err="{expected}"') == (call.out, call.logged[-1])


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(
            HEADER + "clusterCIDRS: 10.64.0.0/14\n",
            'unknown field \\"clusterCIDRS\\" (line 3; did you mean \\"clusterCIDR\\"?)',
            id="unknown-field",
        ),
        pytest.param(
            HEADER + "mode: [nftables]\n",
            'cannot unmarshal array into field \\"mode\\" of type string (line 3)',
            id="wrong-type",
        ),
        pytest.param(
            HEADER + "conntrack: {min: many}\n",
            'cannot unmarshal string into field \\"conntrack.min\\" of type int32 (line 3)',
            id="wrong-type-below",
        ),
        pytest.param(
            "mode: nftables", "Object 'Kind' is missing in 'mode: nftables'", id="no-kind"
        ),
        pytest.param("", "Object 'Kind' is missing in ''", id="empty-file"),
        pytest.param(
            HEADER + "mode: {\n", "yaml: line 4: did not find expected node content", id="no-yaml"
        ),
    ],
)
def test_config_files_that_cannot_be_used(
    call: Called, tmp_path: Path, content: str, expected: str
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(content)
    assert call(f"--config={config}") == 1
    wanted = f"failed complete: failed to decode: {expected} (in {config})"
    assert [f'"command failed" err="{wanted}"'] == call.logged


def test_a_directory_is_no_config_file(call: Called, tmp_path: Path) -> None:
    assert call(f"--config={tmp_path}") == 1
    expected = f'"command failed" err="failed complete: read {tmp_path}: is a directory"'
    assert [expected] == call.logged


# --- running ----------------------------------------------------------------------------------
# Nothing here runs without --dry-run, or with --cleanup: that is for the lab, where the kernel's
# rules are shared with nothing.


def setup_of(*flags: str) -> Setup:
    parsed = parse_flags(flags)
    return wiring.setup_of(parsed, load(parsed, MODES), b"content")


def test_what_a_run_on_manifests_depends_on(tmp_path: Path) -> None:
    flags = (f"--manifests={tmp_path}", "--dry-run", "--hostname-override=Kestrel", "--init-only")
    setup = setup_of(*flags)
    assert isinstance(setup.source, Manifests)
    assert isinstance(setup.dataplane(Family.IPV4), DryRun)
    assert (setup.node_name, setup.waits_for_node, setup.init_only) == ("kestrel", False, True)
    assert (setup.config_file, setup.config_content) == ("", b"content")


def test_what_a_run_on_an_api_server_depends_on(tmp_path: Path) -> None:
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1")
    config = tmp_path / "config.yaml"
    config.write_text(f"{HEADER}clientConnection: {{kubeconfig: {kubeconfig}}}\n")
    setup = setup_of(f"--config={config}", "--dry-run")
    assert isinstance(setup.source, ApiServer)
    assert (setup.waits_for_node, setup.init_only) == (True, False)
    assert setup.config_file == str(config)


def test_other_modes_are_ended_only_by_a_run_that_programs(tmp_path: Path) -> None:
    flags = (f"--manifests={tmp_path}", "--proxy-mode=nftables")
    assert setup_of(*flags).remove_other_modes is not None
    assert setup_of(*flags, "--dry-run").remove_other_modes is None


def test_cleanup_and_dry_run_exclude_each_other(
    call: Called, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "clean_up", lambda: pytest.fail("it removes"))
    assert call("--cleanup", "--dry-run") == 1
    assert "--dry-run changes nothing" in call.logged[-1]


def test_init_only_ends_when_the_node_is_known(call: Called, tmp_path: Path) -> None:
    write(tmp_path, SHOP)
    flags = (f"--manifests={tmp_path}", "--hostname-override=kestrel", "--dry-run", "--init-only")
    assert call(*flags) == 0
    versions = f'version="{VERSION}" commit="{commit()}" kubernetes="{KUBERNETES_VERSION}"'
    assert f'"Version info" {versions}' in call.logged
    followed = f'source="manifests in {tmp_path}" node="kestrel" mode="nftables"'
    assert f'"Following the cluster" {followed}' in call.logged
    assert call.logged[-1] == '"System initialized and --init-only specified"'


class FakeDaemon(Daemon):
    """A daemon that does what a test wants instead of running."""

    def __init__(self, running: Callable[[], Awaitable[None]]) -> None:
        self.running = running

    async def run(self) -> None:
        await self.running()


async def for_ever() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_daemon_in_order(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    tidied = []

    async def running() -> None:
        os.kill(os.getpid(), number)
        try:
            await for_ever()
        finally:
            tidied.append(True)

    assert 128 + number == await run._run_until_signal(FakeDaemon(running))
    assert tidied == [True]
    expected = f'"Stopping; the rules stay as they are" signal="{number.name}"\n'
    assert expected == capsys.readouterr().err.partition("] ")[2]


async def test_a_second_signal_ends_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)

    async def running() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await for_ever()
        except asyncio.CancelledError:
            os.kill(os.getpid(), signal.SIGTERM)
            await until(lambda: bool(codes))
            raise

    await run._run_until_signal(FakeDaemon(running))
    assert codes == [128 + signal.SIGTERM]


async def test_a_daemon_that_is_done_ends_well() -> None:
    assert await run._run_until_signal(FakeDaemon(lambda: asyncio.sleep(0))) == 0


async def test_whoever_cancels_us_hears_of_it() -> None:
    started = asyncio.Event()

    async def running() -> None:
        started.set()
        await for_ever()

    task = asyncio.create_task(run._run_until_signal(FakeDaemon(running)))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_the_whole_daemon_until_it_is_told_to_end(tmp_path: Path) -> None:
    write(tmp_path, SHOP)
    program = "import sys; from kubeproxy.app.cli import main; sys.exit(main())"
    flags = [f"--manifests={tmp_path}", "--hostname-override=kestrel", "--dry-run"]
    with subprocess.Popen(
        [sys.executable, "-c", program, *flags], stderr=subprocess.PIPE, text=True
    ) as daemon:
        assert daemon.stderr is not None
        try:
            line = next(line for line in daemon.stderr if "Dry run" in line)
        finally:
            daemon.terminate()
        assert daemon.wait(timeout=30) == 143
    assert "servicePorts=1 added=1 changed=0 removed=0" in line
