"""`Access` -> `ssl.SSLContext`, built again when one of its files has changed.

A rotated certificate or CA counts from the next connection on. Open watches are left alone: none
lives longer than ten minutes, and both sides have agreed on theirs.
"""

import contextlib
import os
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path

from kubeproxy.base import klog
from kubeproxy.base.errors import OperatorError, reason_of
from kubeproxy.cluster.client.access import Access, ClusterEntry, UserEntry

CHECK_PERIOD = 1.0

Certificate = tuple[str, str]
"""A client certificate and its key, as PEM."""


class TlsError(OperatorError):
    """Certificates or keys that cannot be used."""


class TlsContexts:
    """The contexts of one `Access`: reads its files at once, and again when they change.

    `protocols` are offered to the server, which chooses one (ALPN).
    """

    def __init__(self, access: Access, protocols: Sequence[str] = ()) -> None:
        self._access = access
        self._protocols = protocols
        ca, user = access.cluster.certificate_authority, access.user
        self._files = [path for path in (ca, user.client_certificate, user.client_key) if path]
        self._stamps = self._stamp()
        self._checked = 0.0
        self._certificate: Certificate | None = None
        self._context = build_context(access, None, protocols)

    def current(self, now: float, certificate: Certificate | None = None) -> ssl.SSLContext:
        """The context to connect with; a certificate from an exec plugin takes part if given."""
        changed = certificate != self._certificate
        if self._files and now - self._checked >= CHECK_PERIOD:
            self._checked = now
            stamps = self._stamp()
            changed = changed or stamps != self._stamps
            self._stamps = stamps
        if changed:
            # Files that are half written leave the old context in force until they change again.
            try:
                self._context = build_context(self._access, certificate, self._protocols)
                self._certificate = certificate
            except TlsError as error:
                klog.error(
                    "Failed to load changed certificates, the old ones stay in use", err=error
                )
        return self._context

    def _stamp(self) -> list[tuple[int, int, int] | None]:
        return [_stamp_of(path) for path in self._files]


def _stamp_of(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116  # follows the links that a mounted Secret is made of
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def build_context(
    access: Access, certificate: Certificate | None, protocols: Sequence[str] = ()
) -> ssl.SSLContext:
    """A context for these files and data, as they are now; it offers the protocols (ALPN)."""
    cluster = access.cluster
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if cluster.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif cluster.certificate_authority or cluster.certificate_authority_data:
        _trust(context, cluster)
    else:
        context.load_default_certs()
    _show_certificate(context, access.user, certificate)
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


def _trust(context: ssl.SSLContext, cluster: ClusterEntry) -> None:
    path = cluster.certificate_authority
    text = cluster.certificate_authority_data or _read(path)
    where = f" of {path}" if path else ""
    if not text:
        klog.warning("The CA file is empty, no server will be trusted", file=path)
        return
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError, TypeError) as error:
        raise TlsError(
            f"unable to load root certificates{where}: unable to parse bytes as PEM block"
        ) from error


def _show_certificate(
    context: ssl.SSLContext, user: UserEntry, certificate: Certificate | None
) -> None:
    if certificate is None and (user.client_certificate or user.client_certificate_data):
        certificate = (
            user.client_certificate_data or _read(user.client_certificate),
            user.client_key_data or _read(user.client_key),
        )
    if certificate is None:
        return
    with _in_memory(certificate[0]) as cert, _in_memory(certificate[1]) as key:
        try:
            # The password is a callback that fails, or OpenSSL would ask on the terminal.
            context.load_cert_chain(cert, key, password=_no_password)
        except (ssl.SSLError, ValueError) as error:
            files = " and ".join(
                path for path in (user.client_certificate, user.client_key) if path
            )
            raise TlsError(
                f"unable to load the client certificate and key{f' from {files}' if files else ''}"
                f" as a matching PEM pair: {error}"
            ) from error


def _no_password() -> str:
    raise ValueError("the key is encrypted; give one without a passphrase")


@contextlib.contextmanager
def _in_memory(text: str) -> Iterator[str]:
    """The path of a file that exists only in memory: OpenSSL takes paths, keys stay off disks."""
    descriptor = os.memfd_create("pem")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(text.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="latin-1")
    except OSError as error:
        raise TlsError(f"open {path}: {reason_of(error)}") from error
