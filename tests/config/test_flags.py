import pytest

from kubeproxy.base.version import KUBERNETES_VERSION, VERSION
from kubeproxy.config.errors import UsageError
from kubeproxy.config.flags import FLAGS, parse_flags, reported_version, usage_text, version_text
from kubeproxy.config.flagset import rendered
from kubeproxy.config.gates import GATE_NAMES

# Flags that stand for no single field.
OTHERS = {
    "cleanup",
    "config",
    "dry-run",
    "healthz-bind-address",
    "healthz-port",
    "help",
    "hostname-override",
    "init-only",
    "iptables-min-sync-period",
    "iptables-sync-period",
    "ipvs-min-sync-period",
    "ipvs-sync-period",
    "manifests",
    "masquerade-all",
    "master",
    "metrics-bind-address",
    "metrics-port",
    "version",
    "write-config-to",
}

DEFAULTS = {
    "bind-address": "0.0.0.0",
    "bind-address-hard-fail": "false",
    "cleanup": "false",
    "cluster-cidr": "",
    "config": "",
    "config-sync-period": "15m0s",
    "conntrack-max-per-core": "32768",
    "conntrack-min": "131072",
    "conntrack-tcp-be-liberal": "false",
    "conntrack-tcp-timeout-close-wait": "1h0m0s",
    "conntrack-tcp-timeout-established": "24h0m0s",
    "conntrack-udp-timeout": "0s",
    "conntrack-udp-timeout-stream": "0s",
    "detect-local-mode": "",
    "dry-run": "false",
    "feature-gates": "",
    "healthz-bind-address": "0.0.0.0:10256",
    "healthz-port": "10256",
    "help": "false",
    "hostname-override": "",
    "init-only": "false",
    "iptables-localhost-nodeports": "true",
    "iptables-masquerade-bit": "14",
    "iptables-min-sync-period": "1s",
    "iptables-sync-period": "30s",
    "ipvs-exclude-cidrs": "[]",
    "ipvs-min-sync-period": "1s",
    "ipvs-scheduler": "",
    "ipvs-strict-arp": "false",
    "ipvs-sync-period": "30s",
    "ipvs-tcp-timeout": "0s",
    "ipvs-tcpfin-timeout": "0s",
    "ipvs-udp-timeout": "0s",
    "kube-api-burst": "10",
    "kube-api-content-type": "application/vnd.kubernetes.protobuf",
    "kube-api-qps": "5",
    "kubeconfig": "",
    "log-flush-frequency": "5s",
    "log-json-info-buffer-size": "0",
    "log-json-split-stream": "false",
    "log-text-info-buffer-size": "0",
    "log-text-split-stream": "false",
    "logging-format": "text",
    "manifests": "[]",
    "masquerade-all": "false",
    "master": "",
    "metrics-bind-address": "127.0.0.1:10249",
    "metrics-port": "10249",
    "nftables-affinity-size": "65535",
    "nftables-balance": "random",
    "nftables-fast-path": "false",
    "nftables-healing": "none",
    "nftables-endpoint-counters": "false",
    "nodeport-addresses": "[]",
    "oom-score-adj": "-999",
    "pod-bridge-interface": "",
    "pod-interface-name-prefix": "",
    "profiling": "false",
    "proxy-mode": "",
    "proxy-port-range": "",
    "rules-page": "local",
    "show-hidden-metrics-for-version": "",
    "status-page": "local",
    "status-socket": "/run/kube-proxy/status.sock",
    "traffic-metrics": "frontend",
    "traffic-series-limit": "10000",
    "udp-timeout": "250ms",
    "userspace-port-map": "[]",
    "userspace-workers": "1",
    "v": "0",
    "version": "false",
    "vmodule": "",
    "write-config-to": "",
}


def test_all_flags_have_upstreams_names_and_defaults() -> None:
    assert rendered(FLAGS, parse_flags([])) == DEFAULTS


def test_every_flag_leads_somewhere() -> None:
    fields = {flag.name for flag in FLAGS if flag.field}
    assert fields | OTHERS == set(DEFAULTS)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["--nope"], "unknown flag: --nope", id="an-unknown-flag"),
        pytest.param(
            ["--bind-address", "foo"],
            'invalid argument "foo" for "--bind-address" flag: "foo" is not a valid IP address',
            id="no-bind-address",
        ),
        pytest.param(
            ["--healthz-bind-address", "foo:1"],
            'invalid argument "foo:1" for "--healthz-bind-address" flag: "foo" is not a valid IP'
            " address",
            id="no-healthz-address",
        ),
        pytest.param(
            ["--iptables-sync-period", "5"],
            'invalid argument "5" for "--iptables-sync-period" flag: time: missing unit in'
            ' duration "5"',
            id="no-period",
        ),
        pytest.param(
            ["--conntrack-min", "abc"],
            'invalid argument "abc" for "--conntrack-min" flag: strconv.ParseInt: parsing "abc":'
            " invalid syntax",
            id="no-number",
        ),
        pytest.param(
            ["--feature-gates", "foo"],
            'invalid argument "foo" for "--feature-gates" flag: malformed pair, expect'
            " string=bool",
            id="no-gate",
        ),
        pytest.param(
            ["--feature-gates", "foo=x"],
            'invalid argument "foo=x" for "--feature-gates" flag: invalid value of foo: x, err:'
            ' strconv.ParseBool: parsing "x": invalid syntax',
            id="no-state-of-a-gate",
        ),
        pytest.param(
            ["--vmodule", "x"],
            'invalid argument "x" for "--vmodule" flag: "x" does not have the pattern=N format',
            id="no-pattern",
        ),
        pytest.param(
            ["-v=x"],
            'invalid argument "x" for "-v, --v" flag: strconv.ParseUint: parsing "x": invalid'
            " syntax",
            id="no-verbosity",
        ),
        pytest.param(
            ["--log-text-info-buffer-size=1K"],
            'invalid argument "1K" for "--log-text-info-buffer-size" flag: unable to parse'
            " quantity's suffix: the suffixes are k, M, G (powers of 1000) and Ki, Mi, Gi"
            " (powers of 1024)",
            id="no-size",
        ),
        pytest.param(
            ["--version=v1.2.3"],
            'invalid argument "v1.2.3" for "--version" flag: version "v1.2.3" must match'
            " major/minor/patch of default version"
            f' "{KUBERNETES_VERSION}"',
            id="another-version",
        ),
        pytest.param(
            ["--enable-dsr"],
            "unknown flag: --enable-dsr: this flag exists on Windows only, and this is Linux",
            id="a-windows-flag",
        ),
        pytest.param(
            ["--logtostderr=true"],
            "unknown flag: --logtostderr: Kubernetes removed it in 1.26: logs go to standard"
            " error; leave it out",
            id="a-flag-of-the-old-log",
        ),
        pytest.param(
            ["--boot_id_file=x"],
            "unknown flag: --boot_id_file: it belonged to a library that upstream was built with,"
            " and never did anything for kube-proxy; leave it out",
            id="a-flag-of-cadvisor",
        ),
        pytest.param(
            ["foo", "bar"],
            '"kube-proxy" does not take any arguments, got ["foo" "bar"]',
            id="arguments",
        ),
    ],
)
def test_command_lines_that_cannot_be_understood(arguments: list[str], expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_flags(arguments)
    assert expected == str(caught.value)


@pytest.mark.parametrize(
    ("name", "release", "instead"),
    [
        ("cleanup-iptables", "1.15", "--cleanup"),
        ("cleanup-ipvs", "1.21", "--cleanup"),
        ("conntrack-max", "1.15", "--conntrack-max-per-core"),
        ("resource-container", "1.16", "leave it out"),
        ("stderrthreshold", "1.26", "leave it out"),
    ],
)
def test_a_flag_that_was_removed_says_since_when_and_what_to_do(
    name: str, release: str, instead: str
) -> None:
    with pytest.raises(UsageError, match=f"Kubernetes removed it in {release}") as caught:
        parse_flags([f"--{name}=1"])
    assert instead in str(caught.value)


@pytest.mark.parametrize(
    ("name", "instead"),
    [("healthz-port", "healthz-bind-address"), ("metrics-port", "metrics-bind-address")],
)
def test_deprecated_flags_say_what_to_use(name: str, instead: str) -> None:
    expected = (
        f"Flag --{name} has been deprecated, This flag is deprecated and will be removed in a"
        f" future release. Please use --{instead} instead."
    )
    assert parse_flags([f"--{name}=1"]).deprecations == (expected,)


def test_underscores_are_dashes() -> None:
    assert parse_flags(["--proxy_mode=ipvs"]).value("proxy-mode", str) == "ipvs"


def test_help_is_given_whatever_else_is_said() -> None:
    assert parse_flags(["foo", "-h"]).value("help", bool)


def test_our_own_flags() -> None:
    parsed = parse_flags(["--manifests=a,b", "--manifests", "c", "--dry-run"])
    assert parsed.value("manifests", tuple) == ("a", "b", "c")
    assert parsed.value("dry-run", bool)


def test_the_usage_text_shows_every_flag_that_should_be_used() -> None:
    text = usage_text(100, [])
    absent = [name for name in DEFAULTS if f"--{name}" not in text]
    assert absent == ["healthz-port", "metrics-port"]
    assert "windows-service" not in text
    assert all(name in text for name in GATE_NAMES)


def test_the_version_is_printed() -> None:
    expected = f"kubeproxy {VERSION} (commit 1a2b), Kubernetes {KUBERNETES_VERSION}"
    assert expected == version_text("true", "m1", "1a2b")
    unknown = f"kubeproxy {VERSION} (commit unknown), Kubernetes {KUBERNETES_VERSION}"
    assert unknown == version_text("true", "m1", "")


def test_the_raw_version_is_one_line_with_everything() -> None:
    text = version_text("raw", "m1", "1a2b")
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    assert text.startswith(f'version.Info{{Program:"kubeproxy {VERSION}", GitCommit:"1a2b", ')
    assert f'Major:"{major}", Minor:"{minor}", GitVersion:"{KUBERNETES_VERSION}"' in text
    assert text.endswith(', Platform:"linux/m1"}')
    assert "\n" not in text


def test_the_reported_version_can_be_overridden() -> None:
    assert reported_version("false") == KUBERNETES_VERSION
    assert f"{KUBERNETES_VERSION}-x" == reported_version(f"{KUBERNETES_VERSION}-x")
