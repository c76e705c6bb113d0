"""What went wrong with a request, in one line that says what to check.

The types and error numbers of exceptions decide, never their texts.
"""

import errno
import os
import socket
import ssl
from enum import Enum

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


class Failure(Enum):
    """Where a request failed: what is said of it."""

    NAME = (
        "the name of {server} cannot be resolved ({why}); check the server URL and the node's DNS"
    )
    UNTRUSTED = "the certificate of {server} is not trusted ({why}); " + _CHECK_TRUST
    PROXY = "the proxy to {server} cannot be reached ({why}); " + _CHECK_PROXY
    PROXY_REFUSED = "the proxy to {server} refused with {why}; " + _CHECK_PROXY
    NO_TLS = "no TLS connection to {server} ({why}); check that its port speaks TLS"
    CONNECT = "cannot connect to {server} ({why}{hint})"
    NO_RESPONSE = "{server} closed the connection without a response"
    CUT = "{server} closed the connection in the middle of its response"
    RESET = "{server} ended the response ({why})"
    SILENT = "{server} did not answer a ping; check the network between this node and the server"
    NOT_HTTP = (
        "{server} does not speak HTTP as expected; check its port and whether it is http or https"
    )
    TLS_ENDED = (
        "{server} ended the TLS connection ({why}); check that it accepts our client certificate"
    )
    TIMEOUT = "{server} did not answer in time"
    CONNECTION = "the connection to {server} failed ({why}{hint})"
    OTHER = "the request to {server} failed ({why})"


class RequestFailed(Exception):
    """A request that failed in one of these ways; `why` is its cause, or a text."""

    def __init__(self, failure: Failure, why: Exception | str = "") -> None:
        super().__init__(failure, why)
        self.failure = failure
        self.why = why


# The first type that fits decides: subclasses stand before their base classes.
_FAILURES: tuple[tuple[type[Exception], Failure], ...] = (
    (ssl.SSLError, Failure.TLS_ENDED),
    (TimeoutError, Failure.TIMEOUT),
    (OSError, Failure.CONNECTION),
    (Exception, Failure.OTHER),
)

_HINTS = {
    errno.ECONNREFUSED: ": is the API server running, and is the port right?",
    errno.ENETUNREACH: ": check the routes of this node",
    errno.EHOSTUNREACH: ": check the routes and firewalls between this node and the server",
    errno.ETIMEDOUT: ": check the routes and firewalls between this node and the server",
}


def describe_failure(error: Exception, server: str) -> str:
    """Why a server could not be reached, and what to check."""
    if isinstance(error, RequestFailed):
        failure, cause = error.failure, error.why
    else:
        failure = next(failure for type_, failure in _FAILURES if isinstance(error, type_))
        cause = error
    hint = _HINTS.get(cause.errno or 0, "") if isinstance(cause, OSError) else ""
    return failure.value.format(server=server, why=_why(cause), hint=hint)


def _why(cause: Exception | str) -> str:
    match cause:
        case ssl.SSLCertVerificationError():
            return cause.verify_message
        case ssl.SSLError() if cause.reason:
            return cause.reason.replace("_", " ").lower()
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
