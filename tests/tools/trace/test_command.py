"""`kube-proxy trace` as people call it wrongly; what it shows is tried in the lab."""

import pytest

from kubeproxy.app.cli import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            ["web"],
            '"kube-proxy trace" does not take any arguments, got ["web"]: did you mean --to web?',
            id="a-service-without-its-flag",
        ),
        pytest.param(
            ["--to=10.112.0.10"],
            "--to 10.112.0.10: give the port too, as in ADDRESS:PORT/UDP",
            id="an-address-without-a-port",
        ),
        pytest.param(
            ["--to=10.112.0.10:dns"],
            "--to 10.112.0.10:dns: 'dns' is not a port number",
            id="an-address-with-the-name-of-a-port",
        ),
        pytest.param(
            ["--to=web", "--from=shopper"],
            "--from shopper: it is neither an address nor a CIDR",
            id="a-pod-as-a-client",
        ),
        pytest.param(
            ["--to=web", "--endpoint=shopper"],
            "--endpoint shopper: it is no ADDRESS[:PORT]",
            id="a-pod-as-an-endpoint",
        ),
        pytest.param(
            ["--to=web", "--count=-1"], "--count -1: must be 0 or more", id="less-than-nothing"
        ),
        pytest.param(
            ["--to=web", "--seconds=nan"], "--seconds nan: must be 0 or more", id="no-time"
        ),
        pytest.param(["--to=web", "-o", "yaml"], "--output yaml: must be text or json", id="yaml"),
    ],
)
def test_a_wrong_call_says_what_to_do(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", *arguments]) == 1
    assert capsys.readouterr() == ("", f"Error: {message}\n")


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Usage:\n  kube-proxy trace [flags]\n")
    assert "--socket" in shown
