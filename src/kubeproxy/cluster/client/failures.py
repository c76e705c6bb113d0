"""What went wrong with a request, in one line that says what to check.

The types and error numbers of exceptions decide, never their texts.
"""

import errno
import os
import socket
import ssl

import aiohttp

from kubeproxy.base.errors import ApiServerError
from kubeproxy.cluster.client.status import Status


class UnreachableError(ApiServerError):
    """There was no response, or it was cut off."""


class RefusedError(ApiServerError):
    """The server refused the request."""

    def __init__(self, text: str, status: Status) -> None:
        super().__init__(text)
        self.status = status


_CHECK_TRUST = "check the server URL, certificate-authority and tls-server-name"
_CHECK_PROXY = "check proxy-url in the kubeconfig, HTTPS_PROXY and NO_PROXY"

# The first type that fits decides: subclasses stand before their base classes.
_FAILURES: tuple[tuple[type[Exception], str], ...] = (
    (
        aiohttp.ClientConnectorDNSError,
        "the name of {server} cannot be resolved ({why}); check the server URL and the node's DNS",
    ),
    (
        aiohttp.ClientConnectorCertificateError,
        "the certificate of {server} is not trusted ({why}); " + _CHECK_TRUST,
    ),
    (
        aiohttp.ClientProxyConnectionError,
        "the proxy to {server} cannot be reached ({why}); " + _CHECK_PROXY,
    ),
    (aiohttp.ClientHttpProxyError, "the proxy to {server} refused with {why}; " + _CHECK_PROXY),
    (
        aiohttp.ClientSSLError,
        "no TLS connection to {server} ({why}); check that its port speaks TLS",
    ),
    (aiohttp.ClientConnectorError, "cannot connect to {server} ({why}{hint})"),
    (aiohttp.ServerDisconnectedError, "{server} closed the connection without a response"),
    (aiohttp.ClientPayloadError, "{server} closed the connection in the middle of its response"),
    (
        aiohttp.ClientResponseError,
        "{server} does not speak HTTP as expected; check its port and whether it is http or https",
    ),
    (
        ssl.SSLError,
        "{server} ended the TLS connection ({why}); check that it accepts our client certificate",
    ),
    (TimeoutError, "{server} did not answer in time"),
    (OSError, "the connection to {server} failed ({why}{hint})"),
    (Exception, "the request to {server} failed ({why})"),
)

_HINTS = {
    errno.ECONNREFUSED: ": is the API server running, and is the port right?",
    errno.ENETUNREACH: ": check the routes of this node",
    errno.EHOSTUNREACH: ": check the routes and firewalls between this node and the server",
    errno.ETIMEDOUT: ": check the routes and firewalls between this node and the server",
}


def describe_failure(error: Exception, server: str) -> str:
    """Why a server could not be reached, and what to check."""
    template = next(text for type_, text in _FAILURES if isinstance(error, type_))
    cause = _cause(error)
    hint = _HINTS.get(cause.errno or 0, "") if isinstance(cause, OSError) else ""
    return template.format(server=server, why=_why(cause), hint=hint)


def _cause(error: Exception) -> Exception:
    """The exception of the system that caused that of the HTTP library."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return error.certificate_error
    if isinstance(error, aiohttp.ClientConnectorError):
        return error.os_error
    return error


def _why(cause: Exception) -> str:
    match cause:
        case ssl.SSLCertVerificationError():
            return cause.verify_message
        case ssl.SSLError() if cause.reason:
            return cause.reason.replace("_", " ").lower()
        case aiohttp.ClientHttpProxyError():
            return f"{cause.status} {cause.message}"
        case socket.gaierror() if cause.strerror:
            return cause.strerror.lower()
        case OSError() if cause.errno is not None and cause.errno > 0:
            return os.strerror(cause.errno).lower()
        case _:
            return str(cause) or type(cause).__name__


_ADVICE: dict[int, str] = {
    400: "check that the server URL begins with https:// if the port speaks TLS",
    401: "the client is {identity}: check that the token or certificate is valid,"
    " has not expired and belongs to this cluster",
    403: "the client is {identity}: check that a role that allows this, such as"
    " ClusterRole system:node-proxier, is bound to it",
    404: "check the server URL and its path, and that the cluster serves {what}",
}


def describe_refusal(status: Status, what: str, server: str, identity: str) -> str:
    """Why a server refused, which identity was used, and what to check."""
    text = f"{server} refused to serve {what} with {status}"
    advice = _ADVICE.get(status.code)
    return f"{text}; {advice.format(identity=identity, what=what)}" if advice else text
