"""The kubeconfig format: text -> document, with its relative paths made absolute. No I/O.

Unknown fields are ignored and null counts as absent, as for every client of Kubernetes. JSON is
accepted too.
"""

import posixpath
from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar

import msgspec

from kubeproxy.base import kubeyaml
from kubeproxy.base.errors import OperatorError
from kubeproxy.base.printable import quoted

EXEC_V1BETA1 = "client.authentication.k8s.io/v1beta1"


class KubeconfigError(OperatorError):
    """A kubeconfig that cannot be used, or the lack of one."""


class Extension(msgspec.Struct, frozen=True):
    """Data of others, by name."""

    name: str = ""
    extension: object = None


class Cluster(msgspec.Struct, frozen=True, rename="kebab"):
    """`clusters[].cluster`."""

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


class ExecConfig(msgspec.Struct, frozen=True, rename="camel"):
    """`users[].user.exec`."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class AuthProvider(msgspec.Struct, frozen=True):
    """`users[].user.auth-provider`: known only to be refused."""

    name: str = ""


class UserEntry(msgspec.Struct, frozen=True, rename="kebab"):
    """`users[].user`."""

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
    exec: ExecConfig | None = None


class Context(msgspec.Struct, frozen=True):
    """`contexts[].context`."""

    cluster: str = ""
    user: str = ""


class NamedCluster(msgspec.Struct, frozen=True):
    """`clusters[]`."""

    name: str = ""
    cluster: Cluster = Cluster()


class NamedUser(msgspec.Struct, frozen=True):
    """`users[]`."""

    name: str = ""
    user: UserEntry = UserEntry()


class NamedContext(msgspec.Struct, frozen=True):
    """`contexts[]`."""

    name: str = ""
    context: Context = Context()


class Document(msgspec.Struct, frozen=True, rename="kebab"):
    """A kubeconfig."""

    clusters: tuple[NamedCluster, ...] = ()
    users: tuple[NamedUser, ...] = ()
    contexts: tuple[NamedContext, ...] = ()
    current_context: str = ""


def parse_kubeconfig(text: str, directory: str) -> Document:
    """The document in the text; relative paths in it start from the directory."""
    try:
        roots = kubeyaml.values(text)
        if len(roots) > 1:
            raise KubeconfigError("not a kubeconfig: it has more than one document")
        tree = _without_nulls(roots[0]) if roots else {}
        document = msgspec.convert(tree, Document)
    except kubeyaml.TextError as error:
        raise KubeconfigError(str(error)) from error
    except msgspec.ValidationError as error:
        raise KubeconfigError(f"not a kubeconfig: {error}") from error
    except RecursionError as error:
        raise KubeconfigError(f"not a kubeconfig: {kubeyaml.TOO_DEEP}") from error
    for kind, entries in (
        ("cluster", document.clusters),
        ("user", document.users),
        ("context", document.contexts),
    ):
        _refuse_duplicates(kind, entries)
    return msgspec.structs.replace(
        document,
        clusters=tuple(_resolve_cluster(each, directory) for each in document.clusters),
        users=tuple(_resolve_user(each, directory) for each in document.users),
    )


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


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_Entry = TypeVar("_Entry", bound=_Named)


def named(entries: Iterable[_Entry], name: str) -> _Entry | None:
    """The entry of that name."""
    return next((entry for entry in entries if entry.name == name), None)


def _refuse_duplicates(kind: str, entries: Iterable[_Named]) -> None:
    seen: set[str] = set()
    for entry in entries:
        if entry.name in seen:
            raise KubeconfigError(f'two entries for {kind} "{entry.name}": remove one of them')
        seen.add(entry.name)


def _resolve_cluster(entry: NamedCluster, directory: str) -> NamedCluster:
    cluster = msgspec.structs.replace(
        entry.cluster,
        certificate_authority=_absolute(entry.cluster.certificate_authority, directory),
    )
    return NamedCluster(entry.name, cluster)


def _resolve_user(entry: NamedUser, directory: str) -> NamedUser:
    user = msgspec.structs.replace(
        entry.user,
        client_certificate=_absolute(entry.user.client_certificate, directory),
        client_key=_absolute(entry.user.client_key, directory),
        token_file=_absolute(entry.user.token_file, directory),
        exec=_resolve_exec(entry.user.exec, directory),
    )
    return NamedUser(entry.name, user)


def _resolve_exec(plugin: ExecConfig | None, directory: str) -> ExecConfig | None:
    if plugin is None:
        return None
    mode = plugin.interactive_mode
    if not mode and plugin.api_version == EXEC_V1BETA1:
        mode = "IfAvailable"
    # A command without a slash is looked up in PATH.
    command = plugin.command
    if "/" in command:
        command = _absolute(command, directory)
    return msgspec.structs.replace(plugin, interactive_mode=mode, command=command)


def _absolute(path: str, directory: str) -> str:
    return posixpath.normpath(posixpath.join(directory, path)) if path else ""
