"""Our credentials on every request: headers, and the TLS context with our certificate.

Tokens rotate: a token file is read again when the copy in hand is 50 s old, and an exec plugin is
asked again when its credential has expired or the server answered 401 to it.
"""

import base64
import re
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import msgspec

from kubeproxy.base import klog
from kubeproxy.base.errors import reason_of
from kubeproxy.cluster.client.access import Access, CredentialsError, UserEntry
from kubeproxy.cluster.client.execplugin import Credential, ExecPlugin
from kubeproxy.cluster.client.tls import TlsContexts
from kubeproxy.cluster.client.transport import Headers

TOKEN_LIFE = 50.0


class TokenFile:
    """A bearer token in a file that others replace."""

    def __init__(self, path: str, now: float) -> None:
        self._path = path
        self._token = _read_token(path)
        self._read_at = now

    def token(self, now: float) -> str:
        """The token; one that cannot be read again stays in use."""
        if now - self._read_at >= TOKEN_LIFE:
            self._read_at = now
            try:
                self._token = _read_token(self._path)
            except CredentialsError as error:
                klog.error("Unable to rotate token", err=error)
        return self._token


def _read_token(path: str) -> str:
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise CredentialsError(f"open {path}: {reason_of(error)}") from error
    except UnicodeDecodeError as error:
        raise CredentialsError(f'token file "{path}" does not hold text') from error
    if not token:
        raise CredentialsError(f'read empty token from file "{path}"')
    return token


class Proof(msgspec.Struct, frozen=True):
    """What one request shows to the server."""

    headers: Headers
    context: ssl.SSLContext | None
    credential: Credential | None = None
    """From the exec plugin, if there is one."""


class Credentials:
    """The credentials of one `Access`. Files are read at once, so that mistakes show at start."""

    def __init__(
        self,
        access: Access,
        environ: Mapping[str, str],
        now: float,
        protocols: Sequence[str] = (),
    ) -> None:
        user = access.user
        self._always = impersonation_headers(user)
        self._contexts = TlsContexts(access, protocols) if access.uses_tls else None
        self._token_file = _token_file(access, now)
        self._fixed = ""
        if user.token:
            self._fixed = f"Bearer {user.token}"
        elif user.username:
            pair = f"{user.username}:{user.password}"
            self._fixed = f"Basic {base64.b64encode(pair.encode()).decode()}"
        self._plugin = ExecPlugin(user.exec, access, environ) if user.exec is not None else None
        self._identity = access.identity
        check_headers((("Authorization", self._fixed), *self._always), self._identity)

    async def prove(self, now: float, wall_clock: float) -> Proof:
        """Headers and TLS context for a request that is made now."""
        authorization = self._fixed
        credential: Credential | None = None
        if self._token_file is not None:
            authorization = f"Bearer {self._token_file.token(now)}"
        elif self._plugin is not None:
            credential = await self._plugin.credential(wall_clock)
            authorization = f"Bearer {credential.token}" if credential.token else ""
        headers = self._always
        if authorization:
            headers = (("Authorization", authorization), *headers)
            check_headers(headers, self._identity)
        context = None
        if self._contexts is not None:
            certificate = credential.certificate if credential is not None else None
            context = self._contexts.current(now, certificate)
        return Proof(headers, context, credential)

    def refused(self, proof: Proof) -> None:
        """The server answered 401 to this."""
        if self._plugin is not None and proof.credential is not None:
            self._plugin.forget(proof.credential)


def _token_file(access: Access, now: float) -> TokenFile | None:
    """The file wins over a token, unless there is a token and the file cannot be read."""
    user = access.user
    if not user.token_file:
        return None
    try:
        return TokenFile(user.token_file, now)
    except CredentialsError:
        if not user.token:
            raise
        return None


def check_headers(headers: Headers, identity: str) -> None:
    """Refuse what no header can hold; the values, which may be secret, are not shown."""
    for name, value in headers:
        if _UNFIT.search(value):
            raise CredentialsError(
                f"the header {name} cannot be sent: its value, of {identity}, has a line break or"
                " another control character; check the kubeconfig and token files"
            )


def impersonation_headers(user: UserEntry) -> Headers:
    """The headers that ask the server for another identity."""
    if not user.as_user:
        return ()
    uid = (("Impersonate-Uid", user.as_uid),) if user.as_uid else ()
    return (
        ("Impersonate-User", user.as_user),
        *uid,
        *(("Impersonate-Group", group) for group in user.as_groups),
        *(
            (f"Impersonate-Extra-{quote(key.lower(), safe=_UNESCAPED)}", value)
            for key, values in user.as_user_extra.items()
            for value in values
        ),
    )


_UNFIT = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
# What a header's name may hold beside letters and digits, without the percent sign.
_UNESCAPED = "!#$&'*+-.^_`|~"
