"""The API server's Status object, which says why a request was refused.

Decoding never fails, because a proxy in between may answer in its own format, and an old server
leaves fields out: what cannot be decoded is taken from the HTTP status.
"""

from http import HTTPStatus

import msgspec

from kubeproxy.cluster.objects.decode import UNREADABLE, decode_nested
from kubeproxy.cluster.objects.protobuf import (
    MAGIC,
    Field,
    InvalidProtobuf,
    Message,
    text,
    unwrapped,
)

TOO_LARGE = "ResourceVersionTooLarge"
MOST_OF_OTHER_TEXT = 200


class _Cause(msgspec.Struct, frozen=True):
    reason: str | None = None


class _Details(msgspec.Struct, frozen=True):
    causes: tuple[_Cause, ...] | None = None


class _StatusObject(msgspec.Struct, frozen=True):
    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: _Details | None = None


class Status(msgspec.Struct, frozen=True):
    """A refusal."""

    code: int
    reason: str = ""
    message: str = ""
    causes: tuple[str, ...] = ()

    @property
    def stale(self) -> bool:
        """Whether the server cannot serve the requested resourceVersion.

        Either its history is gone, or the server has not reached it yet (after a restore of etcd,
        or on a replica that lags behind).
        """
        expired = self.code == HTTPStatus.GONE or self.reason in ("Expired", "Gone")
        return expired or TOO_LARGE in self.causes

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed a little later."""
        return self.code in (
            HTTPStatus.TOO_MANY_REQUESTS,
            HTTPStatus.BAD_GATEWAY,
            HTTPStatus.SERVICE_UNAVAILABLE,
            HTTPStatus.GATEWAY_TIMEOUT,
        )

    @property
    def may_pass(self) -> bool:
        """Whether it is about who asks, or the server's own state, as while a server starts."""
        return self.code in (
            HTTPStatus.UNAUTHORIZED,
            HTTPStatus.FORBIDDEN,
            HTTPStatus.INTERNAL_SERVER_ERROR,
        )

    def __str__(self) -> str:
        label = f"{self.code} {self.reason}".strip()
        return f"{label}: {self.message}" if self.message else label


_decoder = msgspec.json.Decoder(_StatusObject)
_CAUSE = Message(_Cause, Field(1, "reason", text))
_DETAILS = Message(_Details, Field(4, "causes", _CAUSE.decode, repeated=True))
_STATUS = Message(
    _StatusObject,
    Field(3, "message", text),
    Field(4, "reason", text),
    Field(5, "details", _DETAILS.decode, keep_empty=True),
    Field(6, "code"),
)


def decode_status(body: bytes | msgspec.Raw, http_code: int = 0) -> Status:
    """The Status in a response, or in an ERROR event (which has no HTTP status)."""
    try:
        wire = _decode(bytes(body))
    except (*UNREADABLE, InvalidProtobuf):
        shown = bytes(body).decode(errors="replace")[:MOST_OF_OTHER_TEXT]
        return Status(http_code, _phrase(http_code), " ".join(shown.split()))
    causes = (wire.details.causes if wire.details else None) or ()
    code = http_code or wire.code or 0
    return Status(
        code,
        wire.reason or _phrase(code),
        wire.message or "",
        tuple(cause.reason for cause in causes if cause.reason),
    )


def _decode(body: bytes) -> _StatusObject:
    if body.startswith(MAGIC):
        return _STATUS.decode(unwrapped(body))
    return decode_nested(_decoder, body)


def _phrase(code: int) -> str:
    try:
        return HTTPStatus(code).phrase
    except ValueError:
        return ""
