"""What the API server says when it refuses: a Status object with a code and a reason."""

from collections.abc import Mapping, Sequence

REASON_OF_CODE = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class ApiError(Exception):
    """A refusal: answered as a Status, over HTTP or as an ERROR event of a watch."""

    def __init__(
        self,
        code: int,
        message: str,
        *,
        reason: str | None = None,
        causes: Sequence[Mapping[str, str]] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason if reason is not None else REASON_OF_CODE.get(code, "")
        self.causes = tuple(causes)


def status_of(error: ApiError) -> dict[str, object]:
    """The Status object of the refusal."""
    status: dict[str, object] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": error.message,
        "reason": error.reason,
        "code": error.code,
    }
    if error.causes:
        status["details"] = {"causes": [dict(cause) for cause in error.causes]}
    return status


def too_large(asked: int, current: int) -> ApiError:
    """The refusal of a resourceVersion that this server has not reached."""
    return ApiError(
        504,
        f"Timeout: Too large resource version: {asked}, current: {current}",
        causes=[{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
    )


def expired(asked: int, oldest: int) -> ApiError:
    """The refusal of a resourceVersion whose history is gone."""
    return ApiError(410, f"too old resource version: {asked} ({oldest})")
