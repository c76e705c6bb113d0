"""How to reach an API server, and with which identity: values only, made by `kubeconfig`."""

import msgspec

from kubeproxy.base.errors import OperatorError


class CredentialsError(OperatorError):
    """Credentials that are configured but cannot be had."""


class Secret(msgspec.Struct, frozen=True):
    """A text that no log, error or debugger output may show."""

    value: str

    def __repr__(self) -> str:
        return "Secret(***)"

    def __bool__(self) -> bool:
        return bool(self.value)


NO_SECRET = Secret("")


class Tls(msgspec.Struct, frozen=True):
    """The CA that we trust, and our certificate. A file wins over data where both are set.

    Without a CA, those of the system are trusted; with an empty CA, none is.
    """

    ca_file: str = ""
    ca_data: str | None = None
    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    cert_data: str = ""
    key_file: str = ""
    key_data: Secret = NO_SECRET


class Exec(msgspec.Struct, frozen=True):
    """A program that hands out credentials."""

    command: str
    api_version: str
    interactive_mode: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    provide_cluster_info: bool = False
    cluster_config: msgspec.Raw | None = None
    """JSON of the cluster's extension for exec plugins."""
    install_hint: str = ""


class User(msgspec.Struct, frozen=True):
    """How we prove who we are, beside a client certificate; all empty means anonymous."""

    name: str = ""
    token: Secret = NO_SECRET
    token_file: str = ""
    username: str = ""
    password: Secret = NO_SECRET
    exec: Exec | None = None


class Impersonation(msgspec.Struct, frozen=True):
    """The identity that we ask the server to act as."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a connection needs to know."""

    server: str
    """The URL, with a path prefix where there is one, and without a slash at its end."""
    tls: Tls | None = None
    """None for plain HTTP, where no credentials are sent either."""
    user: User = User()
    impersonation: Impersonation | None = None
    proxy_url: str = ""
    """Empty: the one of the environment."""
    compression: bool = True

    @property
    def identity(self) -> str:
        """Our identity, as far as it is known without asking the server."""
        if self.impersonation is not None:
            return f'"{self.impersonation.user}" (impersonated)'
        user = self.user
        options = (
            (user.token_file, f"the bearer of token file {user.token_file}"),
            (user.token, f'the bearer of the token of kubeconfig user "{user.name}"'),
            (user.username, f'"{user.username}"'),
            (self.tls and self.tls.cert_file, f"the client certificate {_cert_file(self.tls)}"),
            (
                self.tls and self.tls.cert_data,
                f'the client certificate of kubeconfig user "{user.name}"',
            ),
            (user.exec, f"the identity of exec plugin {user.exec.command if user.exec else ''}"),
        )
        return next((text for given, text in options if given), "anonymous")


def _cert_file(tls: Tls | None) -> str:
    return tls.cert_file if tls is not None else ""
