"""How to reach an API server, and with which identity: values only, made by `kubeconfig`.

The entries are those of a kubeconfig, in its words.
"""

import msgspec

from kubeproxy.base.errors import OperatorError

EXEC_V1BETA1 = "client.authentication.k8s.io/v1beta1"


class CredentialsError(OperatorError):
    """Credentials that are configured but cannot be had."""


class Extension(msgspec.Struct, frozen=True):
    """Data of others, by name."""

    name: str = ""
    extension: object = None


class ClusterEntry(msgspec.Struct, frozen=True, rename="kebab"):
    """`clusters[].cluster`. Without a CA, those of the system are trusted."""

    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: tuple[Extension, ...] = ()


class EnvVar(msgspec.Struct, frozen=True):
    """`exec.env[]`."""

    name: str = ""
    value: str = ""


class Exec(msgspec.Struct, frozen=True, rename="camel"):
    """`users[].user.exec`: a program that hands out credentials."""

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


class AuthProvider(msgspec.Struct, frozen=True):
    """`users[].user.auth-provider`: known only to be refused."""

    name: str = ""


class UserEntry(msgspec.Struct, frozen=True, rename="kebab"):
    """`users[].user`: our credentials; all empty means anonymous."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    as_user: str = msgspec.field(name="as", default="")
    as_uid: str = ""
    as_groups: tuple[str, ...] = ()
    as_user_extra: dict[str, tuple[str, ...]] = {}
    username: str = ""
    password: str = ""
    auth_provider: AuthProvider | None = None
    exec: Exec | None = None

    def __repr__(self) -> str:
        return "UserEntry(***)"  # no log, error or debugger output may show secrets


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a connection needs to know: paths are absolute, data is decoded."""

    server: str
    """The URL, with a path prefix where there is one, and without a slash at its end."""
    cluster: ClusterEntry = ClusterEntry()
    user: UserEntry = UserEntry()
    """Over plain HTTP, what the URL and the impersonation name: no other credentials are sent."""
    user_name: str = ""

    @property
    def uses_tls(self) -> bool:
        """Whether the server is reached over TLS."""
        return self.server.startswith("https://")

    @property
    def identity(self) -> str:
        """Our identity, as far as it is known without asking the server."""
        user, owner = self.user, f'kubeconfig user "{self.user_name}"'
        options = (
            (user.as_user, f'"{user.as_user}" (impersonated)'),
            (user.token_file, f"the bearer of token file {user.token_file}"),
            (user.token, f"the bearer of the token of {owner}"),
            (user.username, f'"{user.username}"'),
            (user.client_certificate, f"the client certificate {user.client_certificate}"),
            (user.client_certificate_data, f"the client certificate of {owner}"),
            (user.exec, f"the identity of exec plugin {user.exec.command if user.exec else ''}"),
        )
        return next((text for given, text in options if given), "anonymous")
