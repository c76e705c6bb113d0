"""Exec plugins: what they get, what they answer, and when they are run."""

import asyncio
import json
import shlex
from pathlib import Path

import msgspec
import pytest

from cluster.following import following, service
from fakes.apiserver import FakeApiServer
from fakes.certs import issue, server_tls
from kubeproxy.cluster.client import execplugin
from kubeproxy.cluster.client.access import (
    Access,
    ClusterEntry,
    EnvVar,
    Exec,
    Extension,
    UserEntry,
)
from kubeproxy.cluster.client.execplugin import (
    Credential,
    ExecPlugin,
    ExecPluginError,
    exec_info,
    read_answer,
)

V1 = "client.authentication.k8s.io/v1"
ACCESS = Access(server="https://api:6443")


def answer(api_version: str = V1, kind: str = "ExecCredential", **status: object) -> str:
    return json.dumps({"kind": kind, "apiVersion": api_version, "status": status})


# --- what a plugin gets -----------------------------------------------------------------------


def test_a_plugin_gets_little_by_default() -> None:
    expected = (
        '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1",'
        '"spec":{"interactive":false}}\n'
    )
    assert expected == exec_info(Exec("p", V1, "Never"), ACCESS, "", interactive=False)


def test_a_plugin_that_asks_gets_the_cluster() -> None:
    plugin = Exec("p", V1, "Never", provide_cluster_info=True)
    cluster = ClusterEntry(
        insecure_skip_tls_verify=True,
        tls_server_name="name",
        proxy_url="http://q",
        disable_compression=True,
        extensions=(Extension("client.authentication.k8s.io/exec", {"audience": "x"}),),
    )
    access = Access(server="https://api", cluster=cluster)
    spec = json.loads(exec_info(plugin, access, "PEM", interactive=True))["spec"]
    expected = {
        "interactive": True,
        "cluster": {
            "server": "https://api",
            "tls-server-name": "name",
            "insecure-skip-tls-verify": True,
            "certificate-authority-data": "UEVN",
            "proxy-url": "http://q",
            "disable-compression": True,
            "config": {"audience": "x"},
        },
    }
    assert expected == spec


def test_an_absent_extension_is_null() -> None:
    plugin = Exec("p", V1, "Never", provide_cluster_info=True)
    spec = json.loads(exec_info(plugin, ACCESS, "", interactive=False))["spec"]
    assert spec["cluster"] == {"server": "https://api:6443", "config": None}


# --- what it answers --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stdout", "expected"),
    [
        pytest.param(answer(token="t"), Credential(token="t"), id="a-token"),
        pytest.param(
            answer(token="t", expirationTimestamp="1970-01-01T00:01:40Z"),
            Credential(token="t", expires=100.0),
            id="a-token-that-expires",
        ),
        pytest.param(
            answer(token="t", expirationTimestamp="1970-01-01T00:01:40"),
            Credential(token="t", expires=100.0),
            id="without-a-zone-it-is-utc",
        ),
        pytest.param(
            answer(clientCertificateData="c", clientKeyData="k", token=None),
            Credential(cert="c", key="k"),
            id="a-certificate",
        ),
    ],
)
def test_answers(stdout: str, expected: Credential) -> None:
    assert expected == read_answer(stdout.encode(), V1)


@pytest.mark.parametrize(
    ("stdout", "expected"),
    [
        pytest.param("oops", "decoding stdout: ", id="not-json"),
        pytest.param(
            answer(kind="Pod", token="t"),
            'decoding stdout: kind is "Pod", not ExecCredential',
            id="another-kind",
        ),
        pytest.param(
            answer("v2", token="t"),
            f"exec plugin is configured to use API version {V1}, plugin returned version v2",
            id="another-version",
        ),
        pytest.param(
            f'{{"kind":"ExecCredential","apiVersion":"{V1}"}}',
            "exec plugin didn't return a status field",
            id="no-status",
        ),
        pytest.param(
            answer(token=""), "exec plugin didn't return a token or cert/key pair", id="nothing"
        ),
        pytest.param(
            answer(token="t", clientCertificateData="c"),
            "exec plugin returned only certificate or key, not both",
            id="half-a-pair",
        ),
    ],
)
def test_answers_that_are_none(stdout: str, expected: str) -> None:
    with pytest.raises(ExecPluginError) as caught:
        read_answer(stdout.encode(), V1)
    assert str(caught.value).startswith(f"getting credentials: {expected}")


# --- running it -------------------------------------------------------------------------------


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "plugin"
    path.write_text(f"#!/bin/sh\necho run >> {tmp_path}/runs\n{text}\n")
    path.chmod(0o755)
    return str(path)


def runs(tmp_path: Path) -> int:
    return len((tmp_path / "runs").read_text().splitlines())


def echo(text: str) -> str:
    return f"echo {shlex.quote(text)}"


def plugin_of(command: str, access: Access = ACCESS, **more: object) -> ExecPlugin:
    config = msgspec.structs.replace(Exec(command, V1, "Never"), **more)
    return ExecPlugin(config, access, {"PATH": "/usr/bin:/bin", "FROM_US": "env"})


async def test_a_credential_is_kept_until_it_expires(tmp_path: Path) -> None:
    command = script(tmp_path, echo(answer(token="t", expirationTimestamp="1970-01-01T00:01:40Z")))
    plugin = plugin_of(command)
    first = await plugin.credential(0.0)
    assert first is await plugin.credential(99.0)
    assert runs(tmp_path) == 1
    assert first is not await plugin.credential(100.0)
    assert runs(tmp_path) == 2


async def test_many_askers_wait_for_one_run(tmp_path: Path) -> None:
    plugin = plugin_of(script(tmp_path, echo(answer(token="t"))))
    found = await asyncio.gather(*(plugin.credential(0.0) for _ in range(5)))
    assert 5 * [Credential(token="t")] == found
    assert runs(tmp_path) == 1


async def test_a_refused_credential_is_replaced_once(tmp_path: Path) -> None:
    plugin = plugin_of(script(tmp_path, echo(answer(token="t"))))
    first = await plugin.credential(0.0)
    plugin.forget(first)
    second = await plugin.credential(0.0)
    plugin.forget(first)
    assert second is await plugin.credential(0.0)
    assert runs(tmp_path) == 2


async def test_a_plugin_gets_its_arguments_and_environment(tmp_path: Path) -> None:
    text = (
        'printf \'{"kind":"ExecCredential","apiVersion":"%s","status":{"token":"%s"}}\' '
        f'{V1} "$1-$FROM_US-$OWN-$(cat)"; echo "$KUBERNETES_EXEC_INFO" > {tmp_path}/info'
    )
    ca = tmp_path / "ca.crt"
    ca.write_text("PEM")
    access = Access(server="https://api", cluster=ClusterEntry(certificate_authority=str(ca)))
    command = script(tmp_path, text)
    plugin = plugin_of(
        command, access, args=("arg",), env=(EnvVar("OWN", "own"),), provide_cluster_info=True
    )
    found = await plugin.credential(0.0)
    assert found.token == "arg-env-own-"
    info = json.loads((tmp_path / "info").read_text())
    assert info["spec"]["cluster"]["certificate-authority-data"] == "UEVN"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param(
            "no-such-plugin", "exec: executable no-such-plugin not found; get it", id="missing"
        ),
        pytest.param("/", "exec: /: Permission denied; get it", id="not-executable"),
        pytest.param("false", "exec: executable false failed with exit code 1", id="it-fails"),
        pytest.param("true", "decoding stdout: Input data was truncated", id="it-says-nothing"),
    ],
)
async def test_a_plugin_that_does_not_work(command: str, expected: str) -> None:
    with pytest.raises(ExecPluginError) as caught:
        await plugin_of(command, install_hint="get it").credential(0.0)
    assert f"getting credentials: {expected}" == str(caught.value)


async def test_a_plugin_that_needs_a_terminal_finds_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    expected = "interactive mode: standard input is not a terminal"
    with pytest.raises(ExecPluginError, match=expected):
        await plugin_of("true", interactive_mode="Always").credential(0.0)


def test_an_old_plugin_may_use_a_terminal_if_there_is_one() -> None:
    assert Exec("plugin", "client.authentication.k8s.io/v1beta1").mode == "IfAvailable"
    assert Exec("plugin", V1).mode == ""


async def test_a_plugin_that_hangs_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execplugin, "PLUGIN_TIMEOUT", 0.05)
    plugin = plugin_of(script(tmp_path, "exec sleep 60"))
    with pytest.raises(ExecPluginError, match="did not end within 0 s"):
        await plugin.credential(0.0)


async def test_the_ca_for_the_plugin_must_be_readable(tmp_path: Path) -> None:
    access = Access(
        server="https://api", cluster=ClusterEntry(certificate_authority=str(tmp_path / "missing"))
    )
    with pytest.raises(ExecPluginError, match="cannot read the CA for the plugin"):
        await plugin_of("true", access, provide_cluster_info=True).credential(0.0)


# --- with a server ----------------------------------------------------------------------------


@pytest.mark.usefixtures("short_waits")
async def test_a_token_of_a_plugin_is_used_and_replaced_after_401(tmp_path: Path) -> None:
    tls, authority = server_tls(tmp_path)
    (tmp_path / "token").write_text(answer(token="one"))
    user = UserEntry(exec=Exec(script(tmp_path, f"cat {tmp_path}/token"), V1, "Never"))
    async with FakeApiServer(tls, {"one"}) as server:
        access = Access(
            server=server.url,
            cluster=ClusterEntry(certificate_authority=str(authority.cert)),
            user=user,
        )
        async with following(access) as consumer:
            await consumer.wait_synced()
            server.tokens = {"two"}
            (tmp_path / "token").write_text(answer(token="two"))
            server.faults.cut_streams()
            await consumer.wait(lambda: len(consumer.attempts) == 3)
            server.put(service("a"))
            await consumer.wait_names("a")
            assert consumer.lists() == 1
        assert [a.code for a in consumer.attempts] == ["200", "401", "200"]
    assert runs(tmp_path) == 2


@pytest.mark.usefixtures("short_waits")
async def test_a_certificate_of_a_plugin_is_used(tmp_path: Path) -> None:
    tls, authority = server_tls(tmp_path, client_certificates=True)
    pair = issue(authority, tmp_path, "client")
    both = {"clientCertificateData": pair.cert.read_text(), "clientKeyData": pair.key.read_text()}
    (tmp_path / "answer").write_text(answer(**both))
    user = UserEntry(exec=Exec(script(tmp_path, f"cat {tmp_path}/answer"), V1, "Never"))
    async with FakeApiServer(tls) as server:
        access = Access(
            server=server.url,
            cluster=ClusterEntry(certificate_authority=str(authority.cert)),
            user=user,
        )
        async with following(access) as consumer:
            await consumer.wait_synced()


@pytest.mark.usefixtures("short_waits")
async def test_a_plugin_that_fails_is_reported_and_tried_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = script(tmp_path, f"cat {tmp_path}/answer")
    access = Access(server="https://127.0.0.1:1", user=UserEntry(exec=Exec(command, V1, "Never")))
    async with following(access):
        async with asyncio.timeout(10):
            while (
                not (tmp_path / "runs").exists() or runs(tmp_path) < 3
            ):  # another process writes it
                await asyncio.sleep(0.01)
    lines = [line for line in capsys.readouterr().err.splitlines() if line[0] in "EI"]
    (line,) = lines
    assert "failed with exit code 1" in line
