"""Validation of a kubeconfig: document -> the texts of its mistakes, in upstream's wording.

`unreadable` is the only outside fact: why a file cannot be read, or None. So this stays a function
on values.
"""

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from kubeproxy.cluster.client.kubeconfigfile import Cluster, ExecConfig, UserEntry

Unreadable = Callable[[str], str | None]

NO_CONFIGURATION = (
    "no configuration has been provided, try setting KUBERNETES_MASTER environment variable"
)
EMPTY_CLUSTER = "cluster has no server defined"
PROXY_SCHEMES = ("http", "https", "socks5")
INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")


def cluster_mistakes(name: str, cluster: Cluster, unreadable: Unreadable) -> Iterator[str]:
    """What is wrong with a cluster entry."""
    if cluster == Cluster():
        yield EMPTY_CLUSTER
        return
    if not cluster.server:
        yield f'no server found for cluster "{name}"' if name else f"default {EMPTY_CLUSTER}"
    if cluster.proxy_url:
        mistake = _proxy_mistake(cluster.proxy_url)
        if mistake:
            yield f'invalid \'proxy-url\' "{cluster.proxy_url}" for cluster "{name}": {mistake}'
    if cluster.certificate_authority and cluster.certificate_authority_data:
        yield (
            "certificate-authority-data and certificate-authority are both specified for"
            f" {name}. certificate-authority-data will override."
        )
    yield from _file_mistakes(
        "certificate-authority", cluster.certificate_authority, name, unreadable
    )


def _proxy_mistake(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        return f"parse failed: {error}"
    if parts.scheme not in PROXY_SCHEMES:
        return f'unsupported scheme "{parts.scheme}", must be http, https, or socks5'
    if parts.scheme == "socks5":
        return "SOCKS proxies are not supported by this proxy; use an http or https proxy"
    if not parts.hostname or port == 0:
        return "it names no host"
    return ""


def user_mistakes(name: str, user: UserEntry, unreadable: Unreadable) -> Iterator[str]:
    """What is wrong with a user entry."""
    methods = []
    if user.token:
        methods.append("token")
    if user.username or user.password:
        methods.append("basicAuth")
    if user.client_certificate or user.client_certificate_data:
        yield from _certificate_mistakes(name, user, unreadable)
    if user.exec is not None:
        yield from _exec_mistakes(name, user, user.exec)
    if len(methods) > 1:
        yield (
            f"more than one authentication method found for {name};"
            f" found [{' '.join(methods)}], only one is allowed"
        )
    if not user.as_user and (user.as_uid or user.as_groups or user.as_user_extra):
        yield f"requesting uid, groups or user-extra for {name} without impersonating a user"


def _certificate_mistakes(name: str, user: UserEntry, unreadable: Unreadable) -> Iterator[str]:
    if user.client_certificate and user.client_certificate_data:
        yield (
            f"client-cert-data and client-cert are both specified for {name}."
            " client-cert-data will override."
        )
    if user.client_key and user.client_key_data:
        yield (
            f"client-key-data and client-key are both specified for {name};"
            " client-key-data will override"
        )
    if not user.client_key and not user.client_key_data:
        yield (
            f"client-key-data or client-key must be specified for {name}"
            " to use the clientCert authentication method."
        )
    yield from _file_mistakes("client-cert", user.client_certificate, name, unreadable)
    yield from _file_mistakes("client-key", user.client_key, name, unreadable)


def _file_mistakes(what: str, path: str, name: str, unreadable: Unreadable) -> Iterator[str]:
    reason = unreadable(path) if path else None
    if reason is not None:
        yield f"unable to read {what} {path} for {name} due to {reason}"


def _exec_mistakes(name: str, user: UserEntry, plugin: ExecConfig) -> Iterator[str]:
    use = "to use exec authentication plugin"
    if user.auth_provider is not None:
        yield f"authProvider cannot be provided in combination with an exec plugin for {name}"
    if not plugin.command:
        yield f"command must be specified for {name} {use}"
    if not plugin.api_version:
        yield f"apiVersion must be specified for {name} {use}"
    if any(not variable.name for variable in plugin.env):
        yield f"env variable name must be specified for {name} {use}"
    if not plugin.interactive_mode:
        yield f"interactiveMode must be specified for {name} {use}"
    elif plugin.interactive_mode not in INTERACTIVE_MODES:
        yield f'invalid interactiveMode for {name}: "{plugin.interactive_mode}"'
