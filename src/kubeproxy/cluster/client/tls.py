"""`Tls` -> `ssl.SSLContext`, built again when one of its files has changed.

A rotated certificate or CA counts from the next connection on. Open watches are left alone: none
lives longer than ten minutes, and both sides have agreed on theirs.
"""

import contextlib
import os
import ssl
from collections.abc import Iterator
from pathlib import Path

from kubeproxy.base import klog
from kubeproxy.base.errors import OperatorError, reason_of
from kubeproxy.cluster.client.access import Tls

CHECK_PERIOD = 1.0

Certificate = tuple[str, str]
"""A client certificate and its key, as PEM."""


class TlsError(OperatorError):
    """Certificates or keys that cannot be used."""


class TlsContexts:
    """The contexts of one `Tls`: reads its files at once, and again when they change."""

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self._files = [path for path in (tls.ca_file, tls.cert_file, tls.key_file) if path]
        self._stamps = self._stamp()
        self._checked = 0.0
        self._certificate: Certificate | None = None
        self._context = build_context(tls, None)

    def current(self, now: float, certificate: Certificate | None = None) -> ssl.SSLContext:
        """The context to connect with; a certificate from an exec plugin takes part if given."""
        changed = certificate != self._certificate
        if self._files and now - self._checked >= CHECK_PERIOD:
            self._checked = now
            stamps = self._stamp()
            changed = changed or stamps != self._stamps
            self._stamps = stamps
        if changed:
            self._rebuild(certificate)
        return self._context

    def _rebuild(self, certificate: Certificate | None) -> None:
        """Files that are half written leave the old context in force until they change again."""
        try:
            self._context = build_context(self._tls, certificate)
            self._certificate = certificate
        except TlsError as error:
            klog.error("Failed to load changed certificates, the old ones stay in use", err=error)

    def _stamp(self) -> list[tuple[int, int, int] | None]:
        return [_stamp_of(path) for path in self._files]


def _stamp_of(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116  # follows the links that a mounted Secret is made of
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def build_context(tls: Tls, certificate: Certificate | None) -> ssl.SSLContext:
    """A context for these files and data, as they are now."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif tls.ca_file or tls.ca_data is not None:
        _trust(context, tls)
    else:
        context.load_default_certs()
    _show_certificate(context, tls, certificate)
    return context


def _trust(context: ssl.SSLContext, tls: Tls) -> None:
    text = tls.ca_data if tls.ca_data is not None else _read(tls.ca_file)
    where = f" of {tls.ca_file}" if tls.ca_file else ""
    if not text:
        klog.warning("The CA file is empty, no server will be trusted", file=tls.ca_file)
        return
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError, TypeError) as error:
        raise TlsError(
            f"unable to load root certificates{where}: unable to parse bytes as PEM block"
        ) from error


def _show_certificate(context: ssl.SSLContext, tls: Tls, certificate: Certificate | None) -> None:
    if certificate is None and (tls.cert_file or tls.cert_data):
        certificate = (
            tls.cert_data or _read(tls.cert_file),
            tls.key_data.value or _read(tls.key_file),
        )
    if certificate is None:
        return
    with _in_memory(certificate[0]) as cert, _in_memory(certificate[1]) as key:
        try:
            # The password is a callback that fails, or OpenSSL would ask on the terminal.
            context.load_cert_chain(cert, key, password=_no_password)
        except (ssl.SSLError, ValueError) as error:
            files = " and ".join(path for path in (tls.cert_file, tls.key_file) if path)
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
