"""How to reach an API server, and with which identity: values only, made by `kubeconfig`."""

import msgspec

from kubeproxy.base.errors import OperatorError

EXEC_V1BETA1 = "client.authentication.k8s.io/v1beta1"


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


class EnvVar(msgspec.Struct, frozen=True):
    """A variable for an exec plugin."""

    name: str = ""
    value: str = ""


class Exec(msgspec.Struct, frozen=True, rename="camel"):
    """A program that hands out credentials, as a kubeconfig describes it."""

    command: str = ""
    api_version: str = ""
    interactive_mode: str = ""
    args: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    provide_cluster_info: bool = False
    install_hint: str = ""

    @property
    def mode(self) -> str:
        """Whether the plugin may use a terminal; older versions may leave it out."""
        default = "IfAvailable" if self.api_version == EXEC_V1BETA1 else ""
        return self.interactive_mode or default


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
    cluster_config: object = None
    """The cluster's extension for exec plugins, as values of JSON."""

    @property
    def identity(self) -> str:
        """Our identity, as far as it is known without asking the server."""
        if self.impersonation is not None:
            return f'"{self.impersonation.user}" (impersonated)'
        user, tls = self.user, self.tls or Tls()
        owner = f'kubeconfig user "{user.name}"'
        options = (
            (user.token_file, f"the bearer of token file {user.token_file}"),
            (user.token, f"the bearer of the token of {owner}"),
            (user.username, f'"{user.username}"'),
            (tls.cert_file, f"the client certificate {tls.cert_file}"),
            (tls.cert_data, f"the client certificate of {owner}"),
            (user.exec, f"the identity of exec plugin {user.exec.command if user.exec else ''}"),
        )
        return next((text for given, text in options if given), "anonymous")
