"""Credentials from a program, as `client.authentication.k8s.io` describes it.

What goes to the program and what comes back are functions on values; `ExecPlugin` runs it, one
run at a time, and keeps the answer until it expires or the server refuses it.
"""

import asyncio
import base64
import contextlib
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from kubeproxy.cluster.client.access import Access, CredentialsError, Exec
from kubeproxy.cluster.objects.decode import UNREADABLE, decode_nested

PLUGIN_TIMEOUT = 60.0
EXEC_EXTENSION = "client.authentication.k8s.io/exec"


class ExecPluginError(CredentialsError):
    """The plugin gave no credential. The texts are upstream's."""

    def __init__(self, text: str) -> None:
        super().__init__(f"getting credentials: {text}")


class Credential(msgspec.Struct, frozen=True):
    """What a plugin hands out."""

    token: str = ""
    cert: str = ""
    key: str = ""
    expires: float | None = None
    """Seconds since the epoch."""

    @property
    def certificate(self) -> tuple[str, str] | None:
        """Certificate and key, if there are any."""
        return (self.cert, self.key) if self.cert else None

    def __repr__(self) -> str:
        return "Credential(***)"


class _StatusIn(msgspec.Struct, frozen=True, rename="camel"):
    expiration_timestamp: datetime | None = None
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None


class _CredentialIn(msgspec.Struct, frozen=True, rename="camel"):
    kind: str = ""
    api_version: str = ""
    status: _StatusIn | None = None


_answer_decoder = msgspec.json.Decoder(_CredentialIn)


def exec_info(plugin: Exec, access: Access, ca: str, *, interactive: bool) -> str:
    """The value of KUBERNETES_EXEC_INFO; `ca` is the PEM text of the cluster's CA."""
    spec: dict[str, object] = {"interactive": interactive}
    if plugin.provide_cluster_info:
        cluster = access.cluster
        shown = {
            "server": access.server,
            "tls-server-name": cluster.tls_server_name,
            "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
            "certificate-authority-data": base64.b64encode(ca.encode("latin-1")).decode(),
            "proxy-url": cluster.proxy_url,
            "disable-compression": cluster.disable_compression,
        }
        extensions = {each.name: each.extension for each in cluster.extensions}
        given = {name: value for name, value in shown.items() if value}
        spec["cluster"] = given | {"config": extensions.get(EXEC_EXTENSION)}
    request = {"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec}
    return msgspec.json.encode(request).decode() + "\n"


def read_answer(stdout: bytes, api_version: str) -> Credential:
    """The credential in what the plugin wrote."""
    try:
        answer = decode_nested(_answer_decoder, stdout)
    except UNREADABLE as error:
        raise ExecPluginError(f"decoding stdout: {error}") from error
    if answer.kind != "ExecCredential":
        raise ExecPluginError(f'decoding stdout: kind is "{answer.kind}", not ExecCredential')
    if answer.api_version != api_version:
        raise ExecPluginError(
            f"exec plugin is configured to use API version {api_version},"
            f" plugin returned version {answer.api_version}"
        )
    status = answer.status
    if status is None:
        raise ExecPluginError("exec plugin didn't return a status field")
    cert, key = status.client_certificate_data or "", status.client_key_data or ""
    if not status.token and not cert and not key:
        raise ExecPluginError("exec plugin didn't return a token or cert/key pair")
    if bool(cert) != bool(key):
        raise ExecPluginError("exec plugin returned only certificate or key, not both")
    expires = status.expiration_timestamp
    if expires is not None and expires.tzinfo is None:
        expires = expires.replace(tzinfo=UTC)
    return Credential(
        token=status.token or "",
        cert=cert,
        key=key,
        expires=None if expires is None else expires.timestamp(),
    )


class ExecPlugin:
    """Runs the program when a credential is needed and none is at hand."""

    def __init__(self, plugin: Exec, access: Access, environ: Mapping[str, str]) -> None:
        self._plugin = plugin
        self._access = access
        self._environ = environ
        self._lock = asyncio.Lock()
        self._credential: Credential | None = None

    async def credential(self, wall_clock: float) -> Credential:
        """A credential that has not expired."""
        async with self._lock:
            found = self._credential
            if found is None or (found.expires is not None and found.expires <= wall_clock):
                found = self._credential = await self._run()
            return found

    def forget(self, refused: Credential) -> None:
        """The server refused the credential: ask for another one, unless that was done since."""
        if self._credential is refused:
            self._credential = None

    async def _run(self) -> Credential:
        plugin = self._plugin
        has_terminal = sys.stdin is not None and sys.stdin.isatty()
        if plugin.mode == "Always" and not has_terminal:
            raise ExecPluginError(
                "exec plugin cannot support interactive mode: standard input is not a terminal"
            )
        interactive = plugin.mode != "Never" and has_terminal
        ca = self._ca() if plugin.provide_cluster_info else ""
        info = exec_info(plugin, self._access, ca, interactive=interactive)
        own = {variable.name: variable.value for variable in plugin.env}
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.args,
                env={**self._environ, **own, "KUBERNETES_EXEC_INFO": info},
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            missing = isinstance(error, FileNotFoundError)
            reason = f"{plugin.command}: {error.strerror}"
            hint = f"; {plugin.install_hint}" if plugin.install_hint else ""
            raise ExecPluginError(
                f"exec: {f'executable {plugin.command} not found' if missing else reason}{hint}"
            ) from error
        return read_answer(await self._output(process), plugin.api_version)

    async def _output(self, process: asyncio.subprocess.Process) -> bytes:
        """What the process writes; whatever happens here, it does not outlive us."""
        executable = f"exec: executable {self._plugin.command}"
        try:
            async with asyncio.timeout(PLUGIN_TIMEOUT):
                stdout, _ = await process.communicate()
        except TimeoutError as error:
            raise ExecPluginError(
                f"{executable} did not end within {PLUGIN_TIMEOUT:.0f} s"
            ) from error
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if process.returncode != 0:
            raise ExecPluginError(f"{executable} failed with exit code {process.returncode}")
        return stdout

    def _ca(self) -> str:
        cluster = self._access.cluster
        if cluster.certificate_authority_data or not cluster.certificate_authority:
            return cluster.certificate_authority_data
        try:
            return Path(cluster.certificate_authority).read_text(encoding="latin-1")
        except OSError as error:
            raise ExecPluginError(f"cannot read the CA for the plugin: {error}") from error
