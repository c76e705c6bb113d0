from pathlib import Path

import pytest
import yaml

from kubeproxy.config.errors import ConfigError, Level
from kubeproxy.config.flags import parse_flags
from kubeproxy.config.load import Loaded, complete, load, node_name, write_config
from kubeproxy.config.types import KubeProxyConfiguration, VModuleItem
from kubeproxy.dataplane.modes import MODES

HEAD = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"


def loaded(text: str | None, *arguments: str) -> Loaded:
    return complete(parse_flags(arguments), None if text is None else HEAD + text, MODES)


def messages(result: Loaded) -> list[str]:
    return [notice.message for notice in result.notices]


def test_a_file_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"{HEAD}mode: iptables\nhostnameOverride: é\n", encoding="utf-8")
    config = load(parse_flags(["--config", str(path)]), MODES).config
    assert config.mode == "iptables"
    assert config.hostname_override == "é"


def test_without_a_file_the_flags_count() -> None:
    assert load(parse_flags(["--proxy-mode=ipvs"]), MODES).config.mode == "ipvs"
    assert load(parse_flags(["--config=", "--proxy-mode=ipvs"]), MODES).config.mode == "ipvs"


def test_beside_a_file_flags_for_fields_are_ignored() -> None:
    arguments = ["--proxy-mode=ipvs", "--kubeconfig=/k", "--feature-gates=NoSuch=true"]
    result = loaded("mode: iptables", *arguments, "--healthz-port=0", "--masquerade-all")
    assert loaded("mode: iptables") == result


def test_beside_a_file_the_name_of_the_node_and_the_log_flags_count() -> None:
    vmodule = "[{filePattern: f, verbosity: 1}]"
    text = f"hostnameOverride: file\nlogging: {{verbosity: 1, vmodule: {vmodule}}}"
    config = loaded(text, "--hostname-override=Flag", "-v=5", "--vmodule=g=2").config
    assert config.hostname_override == "flag"
    assert config.logging.verbosity == 5
    assert config.logging.vmodule == (VModuleItem("g", 2), VModuleItem("f", 1))


def test_log_flags_that_are_not_given_leave_the_file_alone() -> None:
    assert loaded("logging: {verbosity: 3, format: json}").config.logging.verbosity == 3


def test_feature_gates_are_resolved() -> None:
    result = loaded("featureGates: {KubeProxyIPVS: false}\nmode: iptables")
    assert not result.gates.enabled("KubeProxyIPVS")
    assert "deprecated feature gate" in messages(result)[0]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(
            ["--hostname-override= "],
            "failed complete: empty hostname-override is invalid",
            id="a-blank-name",
        ),
        pytest.param(
            ["--feature-gates=NoSuch=true"],
            "failed complete: unrecognized feature gate: NoSuch",
            id="an-unknown-gate",
        ),
        pytest.param(
            ["--config={dir}/none"],
            "failed complete: open {dir}/none: no such file or directory",
            id="no-such-file",
        ),
        pytest.param(
            ["--config={dir}"], "failed complete: read {dir}: is a directory", id="a-directory"
        ),
        pytest.param(
            ["--config={dir}/latin1"],
            "failed complete: failed to decode: {dir}/latin1 is not UTF-8: unexpected end of data",
            id="another-encoding",
        ),
        pytest.param(
            ["--config={dir}/empty"],
            "failed complete: failed to decode: Object 'Kind' is missing in '' (in {dir}/empty)",
            id="an-empty-file",
        ),
    ],
)
def test_what_cannot_be_loaded_is_refused(
    arguments: list[str], expected: str, tmp_path: Path
) -> None:
    (tmp_path / "latin1").write_bytes("é".encode("latin-1"))
    (tmp_path / "empty").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(parse_flags([argument.format(dir=tmp_path) for argument in arguments]), MODES)
    assert expected.format(dir=tmp_path) == str(caught.value)


def test_what_is_odd_about_the_file_is_mentioned() -> None:
    result = loaded("mode: iptables\nudpTimeoutMilliseconds: 1s\n---\nmode: ipvs\n")
    assert result.config.mode == "iptables"
    assert messages(result) == [
        "The config file has documents that are not for kube-proxy; they are skipped",
        "Config field has no effect: what it set was removed from Kubernetes",
    ]


def test_a_default_mode_is_mentioned() -> None:
    assert "nftables" in messages(loaded(None))[0]
    assert messages(loaded(None, "--proxy-mode=nftables")) == []


def test_ipvs_is_mentioned_as_deprecated() -> None:
    (notice,) = loaded("mode: ipvs").notices
    assert Level.ERROR is notice.level
    assert "deprecated" in notice.message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("winkernel: {enableDSR: true}", ["winkernel"], id="winkernel"),
        pytest.param("windowsRunAsService: true", ["windowsRunAsService"], id="a-service"),
        pytest.param(
            "winkernel: {sourceVip: 10.0.0.1}\nwindowsRunAsService: true",
            ["winkernel", "windowsRunAsService"],
            id="both",
        ),
    ],
)
def test_fields_for_windows_are_taken_and_mentioned(text: str, expected: list[str]) -> None:
    (notice,) = loaded(f"mode: iptables\n{text}").notices
    assert Level.WARNING is notice.level
    assert {"fields": expected} == notice.pairs


SPLIT = "mode: iptables\nlogging: {options: {%s: {splitStream: true}}}\n"


@pytest.mark.parametrize("name", ["text", "json"])
def test_split_streams_of_a_file_need_the_gate(name: str) -> None:
    result = loaded(SPLIT % name)
    assert loaded("mode: iptables").config == result.config
    assert "splitStream has no effect" in messages(result)[0]


def test_split_streams_of_a_file_work_with_the_gate() -> None:
    result = loaded(SPLIT % "text" + "featureGates: {LoggingAlphaOptions: true}")
    assert result.config.logging.options.text.split_stream
    assert messages(result) == []


def test_split_streams_of_a_flag_are_left_to_validation() -> None:
    result = loaded("mode: iptables", "--log-text-split-stream")
    assert result.config.logging.options.text.split_stream


@pytest.mark.parametrize(
    ("override", "hostname", "expected"),
    [
        pytest.param("", " Host.Example ", "host.example", id="the-hosts-name"),
        pytest.param(" Node ", "host", "node", id="the-override"),
    ],
)
def test_the_name_of_the_node(override: str, hostname: str, expected: str) -> None:
    config = KubeProxyConfiguration(hostname_override=override)
    assert expected == node_name(config, hostname)


def test_a_blank_name_of_the_node_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^empty hostname is invalid$"):
        node_name(KubeProxyConfiguration(hostname_override="  "), "host")


def test_the_configuration_is_written(tmp_path: Path) -> None:
    path = tmp_path / "written.yaml"
    path.write_text("something much longer that must go away\n" * 500, encoding="utf-8")
    write_config(str(path), loaded("mode: iptables", "--hostname-override=n").config)
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert document["mode"] == "iptables"
    assert document["hostnameOverride"] == "n"


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        write_config(f"{tmp_path}/none/config", KubeProxyConfiguration())
    assert f"open {tmp_path}/none/config: no such file or directory" == str(caught.value)


def test_an_error_without_a_number_says_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise OSError("closed for today")

    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(ConfigError, match=r"^failed complete: open /c: closed for today$"):
        load(parse_flags(["--config=/c"]), MODES)
