"""From a kubeconfig, a server URL or the environment of a pod to `Access`.

`choose_access` is the pure part: a document and an overriding URL in, a value or an error with
upstream's text out. Only `load_kubeconfig`, `in_cluster` and `find_access` touch files, and they
do so once, at start.
"""

import base64
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from kubeproxy.base import klog
from kubeproxy.base.errors import reason_of
from kubeproxy.base.inet import parse_address
from kubeproxy.base.printable import quoted
from kubeproxy.cluster.client.access import EXEC_V1BETA1, Access, ClusterEntry, UserEntry
from kubeproxy.cluster.client.kubeconfigfile import (
    EMPTY_CLUSTER,
    NO_CONFIGURATION,
    ContextEntry,
    Entry,
    Kubeconfig,
    KubeconfigError,
    Unreadable,
    cluster_mistakes,
    parse_kubeconfig,
    user_mistakes,
    with_paths,
)

EXEC_VERSIONS = ("client.authentication.k8s.io/v1", EXEC_V1BETA1)
SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


class NoConfigurationError(KubeconfigError):
    """The kubeconfig exists but is empty."""


# --- the pure part ----------------------------------------------------------------------------


def choose_access(document: Kubeconfig, master: str, unreadable: Unreadable) -> Access:
    """The access of the current context; `master` overrides the server's URL."""
    contexts = {entry.name: entry.context for entry in document.contexts}
    clusters = {entry.name: entry.cluster for entry in document.clusters if entry.name}
    users = {entry.name: entry.user for entry in document.users if entry.name}
    used = contexts.get(document.current_context, ContextEntry())
    cluster = clusters.get(used.cluster, ClusterEntry())
    user = users.get(used.user, UserEntry())
    directory = document.directory
    cluster = with_paths(cluster, directory, "certificate_authority")
    user = with_paths(user, directory, "client_certificate", "client_key", "token_file")
    if user.exec is not None and "/" in user.exec.command:  # else it is looked up in PATH
        user = replace(user, exec=with_paths(user.exec, directory, "command"))
    if master:
        cluster = replace(cluster, server=master, tls_server_name="")
    mistakes = []
    if document.current_context and document.current_context not in contexts:
        mistakes.append(f"context was not found for specified context: {document.current_context}")
    mistakes += user_mistakes(used.user, user, unreadable)
    mistakes += cluster_mistakes(used.cluster, cluster, unreadable)
    if mistakes == [EMPTY_CLUSTER]:
        raise NoConfigurationError(f"invalid configuration: {NO_CONFIGURATION}")
    if mistakes:
        listed = mistakes[0] if len(mistakes) == 1 else f"[{', '.join(mistakes)}]"
        raise KubeconfigError(f"invalid configuration: {listed}")
    return _access(used, cluster, user)


def _access(context: ContextEntry, cluster: ClusterEntry, user: UserEntry) -> Access:
    server, in_url = _server_url(cluster.server)
    if server.startswith("https://"):
        cluster, user = _decoded(context, cluster, user)
        if in_url:  # as upstream: a user in the URL wins
            user = replace(user, token="", token_file="", exec=None)
        _check_exec(user)
    else:
        user = UserEntry(
            as_user=user.as_user,
            as_uid=user.as_uid,
            as_groups=user.as_groups,
            as_user_extra=user.as_user_extra,
        )
    return Access(
        server=server,
        cluster=replace(cluster, server=server),
        user=replace(user, **in_url),
        user_name=context.user,
    )


def _server_url(server: str) -> tuple[str, dict[str, str]]:
    """The URL without query and fragment, and the user and password in it, if there are any.

    One without a scheme is plain HTTP, as upstream's. A password in the URL must not be
    shown wherever the server is named.
    """
    url = server if "://" in server else f"http://{server}"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise KubeconfigError(f'server "{server}" is not a URL: {error}') from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise KubeconfigError(f'server "{server}" must look like https://host:port')
    before, at, host = parts.netloc.rpartition("@")
    name, _, password = before.partition(":")
    user = {"username": unquote(name), "password": unquote(password)} if at else {}
    return f"{parts.scheme}://{host}{parts.path.rstrip('/')}", user


def _decoded(
    context: ContextEntry, cluster: ClusterEntry, user: UserEntry
) -> tuple[ClusterEntry, UserEntry]:
    """The entries with PEM texts as data; any other kind of credential switches exec off."""
    if user.auth_provider is not None:
        raise KubeconfigError(
            f'no Auth Provider found for name "{user.auth_provider.name}"; legacy auth providers'
            " are not built in: use a token, a client certificate or an exec plugin"
        )
    ca = cluster.certificate_authority or cluster.certificate_authority_data
    if ca and cluster.insecure_skip_tls_verify:
        raise KubeconfigError(
            "specifying a root certificates file with the insecure flag is not allowed"
        )
    cluster = _with_pem(cluster, context.cluster, "certificate_authority_data")
    user = _with_pem(user, context.user, "client_certificate_data", "client_key_data")
    has_certificate = user.client_certificate or user.client_certificate_data
    if user.token or user.token_file or user.username or has_certificate:
        user = replace(user, exec=None)
    return cluster, user


def _with_pem(entry: Entry, name: str, *fields: str) -> Entry:
    for field in fields:
        try:
            data = base64.b64decode("".join(getattr(entry, field).split()), validate=True)
        except ValueError as error:  # binascii's, and another for what is not ASCII
            written = field.replace("_", "-")
            raise KubeconfigError(f"{written} of {name} is not base64: {error}") from error
        entry = replace(entry, **{field: data.decode("latin-1")})
    return entry


def _check_exec(user: UserEntry) -> None:
    if user.exec is not None and user.exec.api_version not in EXEC_VERSIONS:
        raise KubeconfigError(
            f'exec plugin: invalid apiVersion "{user.exec.api_version}";'
            f" supported are {' and '.join(EXEC_VERSIONS)}"
        )


# --- files ------------------------------------------------------------------------------------


def load_kubeconfig(path: str, master: str = "") -> Access:
    """The access of a kubeconfig; with an empty path that of the master's URL."""
    if not path:
        return choose_access(Kubeconfig(), master, _unreadable)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        verb = "stat" if isinstance(error, FileNotFoundError) else "open"
        raise KubeconfigError(
            f"{verb} {path}: {reason_of(error)}; check --kubeconfig or clientConnection.kubeconfig"
        ) from error
    except UnicodeDecodeError as error:
        raise KubeconfigError(f'error loading config file "{path}": not UTF-8') from error
    except ValueError as error:  # such as a zero byte in the path
        raise KubeconfigError(f"open {quoted(path)}: {error}") from error
    try:
        document = parse_kubeconfig(text, str(Path(path).absolute().parent))
    except KubeconfigError as error:
        raise KubeconfigError(f'error loading config file "{path}": {error}') from error
    try:
        return choose_access(document, master, _unreadable)
    except KubeconfigError as error:
        raise type(error)(f'{error} (kubeconfig "{path}")') from error


def in_cluster(environ: Mapping[str, str], root: str = "/") -> Access:
    """What a pod is given: the address in its environment, token and CA in its file system."""
    host = environ.get("KUBERNETES_SERVICE_HOST", "")
    port = environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise KubeconfigError(
            "unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and"
            " KUBERNETES_SERVICE_PORT must be defined; outside a pod give --kubeconfig"
        )
    directory = Path(root) / SERVICE_ACCOUNT.lstrip("/")
    token, ca = str(directory / "token"), str(directory / "ca.crt")
    reason = _unreadable(token)
    if reason is not None:
        raise KubeconfigError(f"{reason}; does the pod mount a service account token?")
    reason = _unreadable(ca)
    if reason is not None:
        klog.error(
            "Cannot read the cluster's CA certificate, using those of the system", err=reason
        )
    address = f"[{host}]" if ":" in (parse_address(host) or "") else host
    return Access(
        server=f"https://{address}:{port}",
        cluster=ClusterEntry(certificate_authority="" if reason is not None else ca),
        user=UserEntry(token_file=token),
    )


def find_access(
    kubeconfig: str, master: str, environ: Mapping[str, str], root: str = "/"
) -> Access:
    """The one to use: kubeconfig and master if given, else, or if they are empty, in-cluster."""
    if not kubeconfig and not master:
        klog.info(
            "Neither kubeconfig file nor master URL was specified,"
            " falling back to in-cluster config"
        )
        return in_cluster(environ, root)
    try:
        return load_kubeconfig(kubeconfig, master)
    except NoConfigurationError:
        try:
            return in_cluster(environ, root)
        except KubeconfigError:
            pass
        raise


def _unreadable(path: str) -> str | None:
    try:
        with open(path, "rb"):  # noqa: PTH123  # os.access would ask for the real user
            return None
    except OSError as error:
        return f"open {path}: {reason_of(error)}"
