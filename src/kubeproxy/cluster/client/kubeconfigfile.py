"""The kubeconfig format: text -> document, and what is wrong with its entries. No I/O.

Unknown fields are ignored and null counts as absent, as for every client of Kubernetes.
"""

import posixpath
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from kubeproxy.base import kubeyaml
from kubeproxy.base.errors import OperatorError
from kubeproxy.base.printable import quoted
from kubeproxy.cluster.client.access import ClusterEntry, Exec, UserEntry


class KubeconfigError(OperatorError):
    """A kubeconfig that cannot be used, or the lack of one."""


class ContextEntry(msgspec.Struct, frozen=True):
    """`contexts[].context`."""

    cluster: str = ""
    user: str = ""


class _NamedCluster(msgspec.Struct, frozen=True):
    name: str = ""
    cluster: ClusterEntry = ClusterEntry()


class _NamedUser(msgspec.Struct, frozen=True):
    name: str = ""
    user: UserEntry = UserEntry()


class _NamedContext(msgspec.Struct, frozen=True):
    name: str = ""
    context: ContextEntry = ContextEntry()


class Kubeconfig(msgspec.Struct, frozen=True, rename="kebab"):
    """A kubeconfig."""

    clusters: tuple[_NamedCluster, ...] = ()
    users: tuple[_NamedUser, ...] = ()
    contexts: tuple[_NamedContext, ...] = ()
    current_context: str = ""
    directory: str = ""
    """Where relative paths start; not a field of the file."""


def parse_kubeconfig(text: str, directory: str) -> Kubeconfig:
    """The document in the text; relative paths in it start from the directory."""
    try:
        roots = kubeyaml.values(text)
        if len(roots) > 1:
            raise KubeconfigError("not a kubeconfig: it has more than one document")
        tree = _without_nulls(roots[0]) if roots else {}
        document = msgspec.convert(tree, Kubeconfig)
    except kubeyaml.TextError as error:
        raise KubeconfigError(str(error)) from error
    except msgspec.ValidationError as error:
        raise KubeconfigError(f"not a kubeconfig: {error}") from error
    except RecursionError as error:
        raise KubeconfigError(f"not a kubeconfig: {kubeyaml.TOO_DEEP}") from error
    for kind in ("cluster", "user", "context"):
        names = Counter(entry.name for entry in getattr(document, f"{kind}s"))
        for name, count in names.items():
            if count > 1:
                raise KubeconfigError(f'two entries for {kind} "{name}": remove one of them')
    return replace(document, directory=directory)


def _without_nulls(tree: object) -> object:
    match tree:
        case Mapping():
            return {key: _without_nulls(tree[key]) for key in tree if tree[key] is not None}
        case list():
            return [_without_nulls(item) for item in tree if item is not None]
        case str() if "\0" in tree:
            raise KubeconfigError(f"not a kubeconfig: {quoted(tree)} has a zero byte")
        case _:
            return tree


Entry = TypeVar("Entry", bound=msgspec.Struct)


def with_paths(entry: Entry, directory: str, *fields: str) -> Entry:
    """The entry with absolute paths; relative ones start from the directory."""
    given = {field: path for field in fields if (path := getattr(entry, field))}
    absolute = {field: posixpath.join(directory, path) for field, path in given.items()}
    return replace(entry, **{field: posixpath.normpath(absolute[field]) for field in absolute})


# --- validation, in upstream's wording ---------------------------------------------------------

Unreadable = Callable[[str], str | None]
"""Why a file cannot be read, or None: the only outside fact."""

NO_CONFIGURATION = (
    "no configuration has been provided, try setting KUBERNETES_MASTER environment variable"
)
EMPTY_CLUSTER = "cluster has no server defined"
PROXY_SCHEMES = ("http", "https", "socks5")
INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")


def cluster_mistakes(name: str, cluster: ClusterEntry, unreadable: Unreadable) -> Iterator[str]:
    """What is wrong with a cluster entry."""
    if cluster == ClusterEntry():
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
    if not parts.hostname or port == 0:
        return "it names no host"
    return ""


def user_mistakes(name: str, user: UserEntry, unreadable: Unreadable) -> Iterator[str]:
    """What is wrong with a user entry."""
    if user.client_certificate or user.client_certificate_data:
        yield from _certificate_mistakes(name, user, unreadable)
    if user.exec is not None:
        yield from _exec_mistakes(name, user, user.exec)
    if user.token and (user.username or user.password):
        yield (
            f"more than one authentication method found for {name};"
            " found [token basicAuth], only one is allowed"
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


def _exec_mistakes(name: str, user: UserEntry, plugin: Exec) -> Iterator[str]:
    use = "to use exec authentication plugin"
    if user.auth_provider is not None:
        yield f"authProvider cannot be provided in combination with an exec plugin for {name}"
    if not plugin.command:
        yield f"command must be specified for {name} {use}"
    if not plugin.api_version:
        yield f"apiVersion must be specified for {name} {use}"
    if any(not variable.name for variable in plugin.env):
        yield f"env variable name must be specified for {name} {use}"
    if not plugin.mode:
        yield f"interactiveMode must be specified for {name} {use}"
    elif plugin.mode not in INTERACTIVE_MODES:
        yield f'invalid interactiveMode for {name}: "{plugin.interactive_mode}"'
